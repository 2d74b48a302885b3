// SPDX-License-Identifier: MIT
// The same tests over each transport: $FRAMELANE_TEST_TRANSPORT says which ("shm", "uds" or "tcp"); without it lanesink
// and lanesrc choose.
#pragma once

#include <cstdlib>
#include <functional>
#include <regex>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "framelane/lane/settings.hpp"

namespace framelane::gst::test {

inline Transport tested_transport() {
  const char* const told = std::getenv("FRAMELANE_TEST_TRANSPORT");
  const std::string name = told != nullptr ? told : "";
  return name == "tcp"   ? Transport::kTcp
         : name == "uds" ? Transport::kUds
         : name == "shm" ? Transport::kShm
                         : Transport::kAuto;
}
/// Frames travel by a byte stream: no slot reaches the consumer, and the sockets hold frames beyond the burst.
inline bool over_a_stream() { return tested_transport() == Transport::kUds || tested_transport() == Transport::kTcp; }
/// The property `transport` of a source.
inline std::string transport_name() {
  return tested_transport() == Transport::kAuto ? "shm" : std::string(to_string(tested_transport()));
}

/// The descriptor of a lane over the tested transport. With TCP an address of loopback that depends on the lane
/// directory, so that no other test has it.
inline std::string address_of(const std::string& lane) {
  if (tested_transport() != Transport::kTcp) return lane;
  const auto byte = [hash = std::hash<std::string>()(std::getenv("FRAMELANE_DIR"))](int i) {
    return std::to_string(1 + (hash >> (8 * i)) % 254);
  };
  const std::size_t port = 20000 + std::hash<std::string>()(lane) % 10000;
  return "lane.tcp://127." + byte(0) + "." + byte(1) + "." + byte(2) + ":" + std::to_string(port) + "/" + lane;
}

/// A port of 127.0.0.1 that nobody has now.
inline std::string free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool bound = ::bind(fd, any, size) == 0 && ::getsockname(fd, any, &size) == 0;
  ::close(fd);
  return bound ? std::to_string(ntohs(address.sin_port)) : "";
}

/// A pipeline's text with the elements of the tested transport, and with addresses of the lanes.
inline std::string over(const std::string& text) {
  static const std::regex element("\\blane(sink|src)\\b");
  static const std::regex lane("\\blane=([a-z]+)\\b(?![.:/-])");
  if (tested_transport() == Transport::kAuto) return text;
  const std::string prefix = tested_transport() == Transport::kShm ? "shmring" : transport_name() + "lane";
  const std::string elements = std::regex_replace(text, element, prefix + "$1");
  std::string out;
  std::size_t end = 0;
  for (std::sregex_iterator it(elements.begin(), elements.end(), lane), none; it != none; ++it) {
    out += elements.substr(end, static_cast<std::size_t>(it->position()) - end) + "lane=" + address_of((*it)[1]);
    end = static_cast<std::size_t>(it->position() + it->length());
  }
  return out + elements.substr(end);
}

/// The same with frames of a megabyte when the lane is a byte stream: sockets can't hold many of them.
inline std::string filling(const std::string& text) {
  if (!over_a_stream()) return text;
  const std::string large = std::regex_replace(text, std::regex("width=64,height=48"), "width=1024,height=1024");
  return std::regex_replace(large, std::regex("^audiotestsrc"), "audiotestsrc samplesperbuffer=524288");
}

/// Settings of the API for a lane over the tested transport.
template <class Settings>
Settings settings_of(const std::string& lane) {
  Settings settings;
  settings.lane = address_of(lane);
  settings.transport = tested_transport();
  return settings;
}

}  // namespace framelane::gst::test
