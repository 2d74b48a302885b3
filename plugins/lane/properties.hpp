// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gst/gst.h>

#include "framelane/lane/settings.hpp"

#include "lane/enums.hpp"

// An element's properties are a table: each row describes one property and says where its value lives. Properties that
// both directions have are described once, in add_common(). Defaults are those of the Settings, never written twice.
namespace framelane::gst {

/// One property of Element. A setting has set and get; a state of the running element has only show.
template <class Element>
struct Property {
  GParamSpec* spec;
  std::function<void(typename Element::Settings&, const GValue*)> set;
  std::function<void(const typename Element::Settings&, GValue*)> get;
  std::function<void(Element&, GValue*)> show;
};

template <class Element>
using PropertyTable = std::vector<Property<Element>>;  // row i has property id i + 1

struct Words {
  const char* name;
  const char* nick;
  const char* blurb;
};

inline constexpr auto kSettable =
    static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
inline constexpr auto kReadable = static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

/// GST_CLOCK_TIME_NONE is "for ever"; so is whatever a signed count of ns can't hold.
[[nodiscard]] inline std::chrono::nanoseconds to_duration(guint64 ns) {
  return ns > static_cast<guint64>(G_MAXINT64) ? kForever : std::chrono::nanoseconds(ns);
}
[[nodiscard]] inline guint64 to_gst_time(std::chrono::nanoseconds time) {
  return time == kForever ? GST_CLOCK_TIME_NONE : static_cast<guint64>(time.count());
}

template <class Element, class Access>
Property<Element> text_property(Words words, Access access) {
  typename Element::Settings defaults;
  const std::string& initial = access(defaults);
  return {
      g_param_spec_string(words.name, words.nick, words.blurb, initial.empty() ? nullptr : initial.c_str(), kSettable),
      [access](auto& settings, const GValue* value) {
        const char* text = g_value_get_string(value);
        access(settings) = text == nullptr ? "" : text;
      },
      [access](const auto& settings, GValue* value) {
        const std::string& text = access(settings);
        g_value_set_string(value, text.empty() ? nullptr : text.c_str());
      },
      {}};
}

template <class Element, class Access>
Property<Element> count_property(Words words, guint min, guint max, Access access) {
  typename Element::Settings defaults;
  return {g_param_spec_uint(words.name, words.nick, words.blurb, min, max, access(defaults), kSettable),
          [access](auto& settings, const GValue* value) { access(settings) = g_value_get_uint(value); },
          [access](const auto& settings, GValue* value) { g_value_set_uint(value, access(settings)); },
          {}};
}

template <class Element, class Access>
Property<Element> bytes_property(Words words, guint64 min, guint64 max, Access access) {
  typename Element::Settings defaults;
  return {g_param_spec_uint64(words.name, words.nick, words.blurb, min, max, access(defaults), kSettable),
          [access](auto& settings, const GValue* value) {
            access(settings) = static_cast<std::size_t>(g_value_get_uint64(value));
          },
          [access](const auto& settings, GValue* value) { g_value_set_uint64(value, access(settings)); },
          {}};
}

template <class Element, class Access>
Property<Element> time_property(Words words, Access access) {
  typename Element::Settings defaults;
  return {g_param_spec_uint64(words.name, words.nick, words.blurb, 0, G_MAXUINT64, to_gst_time(access(defaults)),
                              kSettable),
          [access](auto& settings, const GValue* value) { access(settings) = to_duration(g_value_get_uint64(value)); },
          [access](const auto& settings, GValue* value) { g_value_set_uint64(value, to_gst_time(access(settings))); },
          {}};
}

template <class Element, class Access>
Property<Element> switch_property(Words words, Access access) {
  typename Element::Settings defaults;
  return {g_param_spec_boolean(words.name, words.nick, words.blurb, access(defaults), kSettable),
          [access](auto& settings, const GValue* value) { access(settings) = g_value_get_boolean(value) != FALSE; },
          [access](const auto& settings, GValue* value) { g_value_set_boolean(value, access(settings)); },
          {}};
}

template <class Element, class Access>
Property<Element> share_property(Words words, Access access) {
  typename Element::Settings defaults;
  return {g_param_spec_double(words.name, words.nick, words.blurb, 0.0, 1.0, access(defaults), kSettable),
          [access](auto& settings, const GValue* value) { access(settings) = g_value_get_double(value); },
          [access](const auto& settings, GValue* value) { g_value_set_double(value, access(settings)); },
          {}};
}

template <class Element, class Access>
Property<Element> choice_property(Words words, GType type, Access access) {
  typename Element::Settings defaults;
  using Enum = std::remove_cvref_t<decltype(access(defaults))>;
  return {
      g_param_spec_enum(words.name, words.nick, words.blurb, type, static_cast<gint>(access(defaults)), kSettable),
      [access](auto& settings, const GValue* value) { access(settings) = static_cast<Enum>(g_value_get_enum(value)); },
      [access](const auto& settings, GValue* value) { g_value_set_enum(value, static_cast<gint>(access(settings))); },
      {}};
}

template <class Element, class Show>
Property<Element> state_property(GParamSpec* spec, Show show) {
  return {spec, {}, {}, std::move(show)};
}

/// A text that the running element knows; null while there is none.
template <class Element, class Text>
Property<Element> state_text_property(Words words, Text text) {
  return state_property<Element>(g_param_spec_string(words.name, words.nick, words.blurb, nullptr, kReadable),
                                 [text](Element& element, GValue* value) {
                                   const std::string now = text(element);
                                   g_value_set_string(value, now.empty() ? nullptr : now.c_str());
                                 });
}

inline const char* lane_blurb(Transport transport) {
  switch (transport) {
    case Transport::kShm:
      return "Name or descriptor of the lane, for example cam0 or lane.shm:///run/user/1000/framelane/cam0; required";
    case Transport::kUds:
      return "Name or descriptor of the lane, for example cam0 or lane.uds:///run/user/1000/framelane/cam0; required";
    case Transport::kTcp:
      return "Name of the lane, for example cam0, at host and port; or its descriptor, which says everything itself, "
             "for example lane.tcp://192.0.2.7:7411/cam0; required";
    case Transport::kAuto:
      break;
  }
  return "Name or descriptor of the lane, or a list in order of preference, for example cam0 or "
         "lane.tcp://192.0.2.7:7411/cam0; required";
}

/// What both directions have.
template <class Element>
void add_common(PropertyTable<Element>& rows, Transport transport) {
  rows.push_back(text_property<Element>(
      {"lane", "Lane", lane_blurb(transport)}, [](auto& s) -> auto& { return s.api.lane; }));
  rows.push_back(count_property<Element>(
      {"max-held", "Most held frames",
       "Frames that a consumer may hold at once (frames); beyond it, it gets copies. The sink's value caps the "
       "source's"},
      1, 1024, [](auto& s) -> auto& { return s.api.max_held; }));
  rows.push_back(bytes_property<Element>(
      {"max-frame-size", "Largest frame", "Largest frame that is accepted (bytes)"}, 1, guint64{1} << 30,
      [](auto& s) -> auto& { return s.api.max_frame_size; }));
  rows.push_back(choice_property<Element>(
      {"spin", "Spin", "How a waiting side spends the time before it sleeps"}, spin_type(),
      [](auto& s) -> auto& { return s.api.spin; }));
  rows.push_back(share_property<Element>(
      {"spin-budget", "Spin budget", "Share of one CPU that spin=adaptive may use (1.0 = one whole CPU)"},
      [](auto& s) -> auto& { return s.api.spin_budget; }));
  rows.push_back(switch_property<Element>(
      {"forward-qos", "Forward QoS",
       "Let QoS events cross to the producer's upstream: set it on both sides. Only while the lane has one consumer"},
      [](auto& s) -> auto& { return s.forward_qos; }));
  if (transport == Transport::kAuto || transport == Transport::kTcp) {
    rows.push_back(text_property<Element>(
        {"psk-file", "Key file",
         "TCP is encrypted by TLS 1.3 with the key in this file, which the other side needs too; null: plain TCP"},
        [](auto& s) -> auto& { return s.api.psk_file; }));
  }
  rows.push_back(state_property<Element>(
      g_param_spec_boxed("stats", "Statistics", "Counters since the element started; times in ns", GST_TYPE_STRUCTURE,
                         kReadable),
      [](Element& element, GValue* value) { g_value_take_boxed(value, element.stats()); }));
}

/// Properties `host` and `port`. `lowest`: of the ports.
template <class Element>
void add_tcp_place(PropertyTable<Element>& rows, guint lowest, const char* blurb) {
  rows.push_back(text_property<Element>(
      {"host", "Host", blurb}, [](auto& s) -> auto& { return s.tcp.host; }));
  const char* const port_blurb = lowest == 0 ? "Port to serve a lane at that is given by its name (0 = any that is "
                                               "free: the property descriptor says which)"
                                             : "Port where the producer serves a lane that is given by its name";
  rows.push_back(count_property<Element>(
      {"port", "Port", port_blurb}, lowest, 65535, [](auto& s) -> auto& { return s.tcp.port; }));
}

/// The table of a transport's class, made when that is: each class has descriptions of its own, and owns them.
template <class Element, PropertyTable<Element> (*make)(Transport)>
[[nodiscard]] const PropertyTable<Element>& table_of(Transport transport) {
  switch (transport) {
    case Transport::kShm: {
      static const PropertyTable<Element> shm = make(Transport::kShm);
      return shm;
    }
    case Transport::kUds: {
      static const PropertyTable<Element> uds = make(Transport::kUds);
      return uds;
    }
    case Transport::kTcp: {
      static const PropertyTable<Element> tcp = make(Transport::kTcp);
      return tcp;
    }
    case Transport::kAuto:
      break;
  }
  static const PropertyTable<Element> any = make(Transport::kAuto);
  return any;
}

template <class Element>
void install_properties(GObjectClass* klass, const PropertyTable<Element>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    g_object_class_install_property(klass, static_cast<guint>(i + 1), rows[i].spec);
  }
}

template <class Element>
void set_from(const PropertyTable<Element>& rows, Element& element, typename Element::Settings& settings, guint id,
              const GValue* value) {
  GST_OBJECT_LOCK(element.gst_element());
  rows[id - 1].set(settings, value);
  GST_OBJECT_UNLOCK(element.gst_element());
}

template <class Element>
void get_from(const PropertyTable<Element>& rows, Element& element, const typename Element::Settings& settings,
              guint id, GValue* value) {
  const Property<Element>& row = rows[id - 1];
  if (row.show) {  // asks the running session, so not under the lock
    row.show(element, value);
    return;
  }
  GST_OBJECT_LOCK(element.gst_element());
  row.get(settings, value);
  GST_OBJECT_UNLOCK(element.gst_element());
}

}  // namespace framelane::gst
