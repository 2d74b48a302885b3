// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framelane/base/result.hpp"

namespace framelane::descriptor {

/// How the bytes travel.
enum class Transport {
  kAny,   ///< the best that both sides can; what a bare name asks for
  kShm,   ///< shared memory
  kUds,   ///< Unix domain socket
  kTcp,   ///< TCP
  kPipe,  ///< Windows named pipe
};

/// One place where a lane may be found.
struct Address {
  Transport transport = Transport::kAny;
  std::string name;        ///< of the lane: [A-Za-z0-9][A-Za-z0-9_-]{0,63}
  std::string directory;   ///< absolute, of the lane's files; empty: runtime_dir()
  std::string host;        ///< only with kTcp
  std::uint16_t port = 0;  ///< only with kTcp

  /// Path of the lane's control socket.
  /// Errors: kTooLarge (longer than a socket's path may be; names path and length), kInvalidArgument ($FRAMELANE_DIR is
  ///         not an absolute path), kUnsupported (a transport without a path).
  [[nodiscard]] Result<std::string> socket_path() const;

  friend bool operator==(const Address&, const Address&) = default;
};

/// Text that says where a lane is: `cam0`, `lane:cam0` (the same), or `lane.shm:///run/user/1000/framelane/cam0`.
/// Addresses only; options are properties and settings. Any byte of a path but '/' and NUL may be percent-encoded.
///
/// Threads: any, as for a std::string.
class Descriptor {
 public:
  /// Errors: kInvalidArgument (says the position, counted in bytes from 1, what was expected, and an example that would
  ///         parse), kTooLarge (the path of the socket would be too long), kUnsupported (a transport or a list of
  ///         addresses, which later versions have).
  [[nodiscard]] static Result<Descriptor> parse(std::string_view text);

  /// The one canonical spelling; parse() of it gives an equal Descriptor.
  [[nodiscard]] std::string to_string() const;

  /// In order of preference, never empty.
  [[nodiscard]] const std::vector<Address>& addresses() const noexcept { return addresses_; }

  /// The lane's name.
  [[nodiscard]] const std::string& name() const noexcept { return addresses_.front().name; }

  /// Of the first address. Errors: as Address::socket_path().
  [[nodiscard]] Result<std::string> socket_path() const { return addresses_.front().socket_path(); }

  friend bool operator==(const Descriptor&, const Descriptor&) = default;

 private:
  explicit Descriptor(std::vector<Address> addresses) : addresses_(std::move(addresses)) {}

  std::vector<Address> addresses_;
};

/// Where lanes with bare names live: $FRAMELANE_DIR, else $XDG_RUNTIME_DIR/framelane, else /tmp/framelane-<uid>.
/// Without a slash at its end. An $XDG_RUNTIME_DIR that isn't absolute counts as not set, as its specification demands;
/// a relative $FRAMELANE_DIR is returned as it is and refused by socket_path().
[[nodiscard]] std::string runtime_dir();

/// The longest path of a Unix domain socket, in bytes without the NUL.
inline constexpr std::size_t kMaxSocketPath = 107;

}  // namespace framelane::descriptor
