// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <sys/types.h>

#include "lane/connection.hpp"
#include "lane/ways.hpp"
#include "transport/control_socket.hpp"

namespace framelane::lane {

/// Why a try to connect failed.
struct Setback {
  Error error;
  bool passing = false;  // may help to try again
};
template <class T>
using Tried = tl::expected<T, Setback>;

/// A connection on its way.
///
/// Threads: one. Nothing here waits, but for the look-up of a host's name.
class Approach {
 public:
  virtual ~Approach() = default;
  /// Goes on. Null: not ready yet; poll fd() for events().
  [[nodiscard]] virtual Tried<Connection*> step() = 0;
  [[nodiscard]] virtual int fd() const noexcept = 0;
  [[nodiscard]] virtual short events() const noexcept = 0;
  /// What the producer said of itself before it counts us as a consumer; null while it said nothing, or where it does
  /// both at once.
  [[nodiscard]] virtual const wire::Welcome* half_way() const noexcept { return nullptr; }
};

struct ApproachSettings {
  wire::Hello hello;
  ConnectionSettings connection;
  std::string psk_file;  // tcp
  std::size_t turn = 0;  // which of a host's addresses
};

/// What a REJECT means to the one who gets it.
[[nodiscard]] Error error_of(const wire::Reject& reject);
/// Only the own user and root are believed. Errors: kPermission (names `path`).
[[nodiscard]] Result<void> check_producer(uid_t uid, const std::string& path);

/// Begins to connect.
[[nodiscard]] Tried<std::unique_ptr<Approach>> approach(const Way& way, const ApproachSettings& settings);
/// The rest of it, over a control socket of which the producer knows the HELLO already.
[[nodiscard]] std::unique_ptr<Approach> approach_after_hello(transport::ControlSocket socket,
                                                             const ConnectionSettings& settings);

}  // namespace framelane::lane
