// SPDX-License-Identifier: MIT
#include "rpc.hpp"

#include <iterator>

#include "settings.hpp"

namespace framelane::python {
namespace {

#define FIELD(name) offsetof(framelane_rpc_settings, name)
const Setting kSettings[] = {
    {"requests", SettingKind::kText, FIELD(requests)},
    {"responses", SettingKind::kText, FIELD(responses)},
    {"burst", SettingKind::kUint32, FIELD(burst)},
    {"max_request_size", SettingKind::kUint64, FIELD(max_request_size)},
    {"max_response_size", SettingKind::kUint64, FIELD(max_response_size)},
    {"spin", SettingKind::kChoice, FIELD(spin), {"adaptive", "busy", "off"}},
    {"spin_budget", SettingKind::kDouble, FIELD(spin_budget)},
    {"insecure", SettingKind::kBool, FIELD(insecure)},
    {"psk_file", SettingKind::kText, FIELD(psk_file)},
    {"connect_timeout", SettingKind::kSeconds, FIELD(connect_timeout_ns)},  // the client's alone: stays the last
};
#undef FIELD

}  // namespace

bool rpc_settings(PyObject* arguments, PyObject* named, const char* what, bool client, const char*& lane,
                  framelane_rpc_settings& settings) {
  PyObject* name = nullptr;
  if (PyArg_ParseTuple(arguments, "|U", &name) == 0) return false;
  lane = nullptr;
  if (name != nullptr && (lane = text_of(name, "a lane's name")) == nullptr) return false;
  framelane_rpc_settings_init(&settings, sizeof settings);
  return apply_settings(named, what, kSettings, std::size(kSettings) - (client ? 0 : 1), &settings);
}

}  // namespace framelane::python
