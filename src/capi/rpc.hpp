// SPDX-License-Identifier: MIT
#pragma once

#include "framelane/lane/client.hpp"
#include "framelane/lane/server.hpp"

#include "capi/handles.hpp"

namespace framelane::capi {

/// The members that clients and servers share; a client has a time to connect, too.
template <class Settings>
Settings rpc_settings(const char* lane, const framelane_rpc_settings& from) {
  Settings to;
  to.lane = or_empty(lane);
  to.requests = or_empty(from.requests);
  to.responses = or_empty(from.responses);
  to.burst = from.burst;
  to.max_request_size = bytes_of(from.max_request_size);
  to.max_response_size = bytes_of(from.max_response_size);
  to.spin = static_cast<Spin>(from.spin);
  to.spin_budget = from.spin_budget;
  to.insecure = from.insecure != 0;
  to.psk_file = or_empty(from.psk_file);
  return to;
}

/// The caller's bytes. False: `data` is NULL though there are some.
inline bool bytes_of(const void* data, std::size_t size, std::span<const std::byte>& bytes) noexcept {
  bytes = {static_cast<const std::byte*>(data), size};
  return data != nullptr || size == 0;
}

/// Gives the handle of a loan back that is used up.
inline void used_up(framelane_loan* loan) noexcept { loan->pool->put(loan); }

}  // namespace framelane::capi
