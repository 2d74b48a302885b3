// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framelane/base/result.hpp"
#include "framelane/descriptor/descriptor.hpp"
#include "framelane/lane/settings.hpp"

// What a descriptor means to each end of a lane: the ways on which a consumer may reach it, the places where a producer
// serves it.

namespace framelane::lane {

/// One way to a lane.
struct Way {
  Transport transport = Transport::kShm;
  std::string lane;  // its name
  std::string path;  // shm: the control socket; uds: the stream's socket
  std::string host;  // tcp
  std::uint16_t port = 0;
  bool is_fallback = false;  // not asked for; only if the producer is there and the way before can't serve
};

/// In order of preference; of a bare name shm, and uds behind it. `wanted` keeps those of one transport.
/// Errors: kInvalidArgument (the descriptor has none for `wanted`, or a path that can't be), kTooLarge (a socket's
/// path), kUnsupported (named pipes).
[[nodiscard]] Result<std::vector<Way>> consumer_ways(const descriptor::Descriptor& descriptor, Transport wanted);

/// Where a producer serves its lane. The files (lock, sockets) are there unless it is TCP alone.
struct Place {
  std::string lane;
  bool has_files = false;
  std::string directory;  // of the files
  bool shm = false;
  bool uds = false;
  struct Tcp {
    std::string host;
    std::uint16_t port = 0;
  };
  std::vector<Tcp> tcp;

  /// All of them, as a descriptor.
  [[nodiscard]] std::string to_string() const;
  /// "shm, uds and tcp"
  [[nodiscard]] std::string transports() const;
};

/// Errors: those of consumer_ways(), and kInvalidArgument: addresses of two lanes, or two directories.
[[nodiscard]] Result<Place> producer_place(const descriptor::Descriptor& descriptor, Transport wanted);

/// Of the socket for streams beside the control socket.
[[nodiscard]] Result<std::string> stream_path(const std::string& socket_path);

}  // namespace framelane::lane
