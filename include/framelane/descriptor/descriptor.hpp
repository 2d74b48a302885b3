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

/// Who asks: only a producer may leave the port to the system.
enum class Side { kProducer, kConsumer };

/// One place where a lane may be found.
struct Address {
  Transport transport = Transport::kAny;
  std::string name;        ///< of the lane: [A-Za-z0-9][A-Za-z0-9_-]{0,63}
  std::string directory;   ///< with kShm and kUds: absolute, of the lane's files; empty (kAny): runtime_dir()
  std::string host;        ///< with kTcp a name, an IPv4 or IPv6 address without brackets; with kPipe "." or a name
  std::uint16_t port = 0;  ///< with kTcp; 0 = any (producers only)

  /// Path of the lane's control socket.
  /// Errors: kTooLarge (longer than a socket's path may be; names path and length), kInvalidArgument ($FRAMELANE_DIR is
  ///         not an absolute path), kUnsupported (a transport without a path).
  [[nodiscard]] Result<std::string> socket_path() const;

  /// Name of the Windows named pipe, like `\\.\pipe\cam0`.
  /// Errors: kUnsupported (another transport).
  [[nodiscard]] Result<std::string> pipe_path() const;

  /// Whether it lies in this machine's file system, so that its lane can only be reached from here.
  [[nodiscard]] bool is_path() const noexcept {
    return transport == Transport::kAny || transport == Transport::kShm || transport == Transport::kUds;
  }

  friend bool operator==(const Address&, const Address&) = default;
};

/// Text that says where a lane is:
///
///   cam0                                        best transport, in the runtime directory; `lane:cam0` is the same
///   lane.shm:///run/user/1000/framelane/cam0    shared memory
///   lane.uds:///run/user/1000/framelane/cam0    Unix domain socket
///   lane.tcp://192.0.2.7:7411/cam0              TCP; an IPv6 address in brackets
///   lane.pipe://./cam0                          Windows named pipe
///   lane.shm:///tmp/cam0,lane.tcp://h:7411/cam0 a list, in order of preference
///
/// Addresses only; options are properties and settings. Any byte of a path but '/' and NUL may be percent-encoded.
///
/// Threads: any, as for a std::string.
class Descriptor {
 public:
  /// Errors: kInvalidArgument (says the position, counted in bytes from 1, what was expected, and an example that would
  ///         parse), kTooLarge (the path of the socket would be too long).
  [[nodiscard]] static Result<Descriptor> parse(std::string_view text, Side side = Side::kConsumer);

  /// The typed ways to the same: each part is checked as parse() would. Errors: as parse(), of the text that it makes.
  [[nodiscard]] static Result<Descriptor> named(const std::string& name);
  [[nodiscard]] static Result<Descriptor> shm(const std::string& directory, const std::string& name);
  [[nodiscard]] static Result<Descriptor> uds(const std::string& directory, const std::string& name);
  [[nodiscard]] static Result<Descriptor> tcp(const std::string& host, std::uint16_t port, const std::string& name);
  [[nodiscard]] static Result<Descriptor> pipe(const std::string& server, const std::string& name);
  /// In order of preference. Errors: also kInvalidArgument (none).
  [[nodiscard]] static Result<Descriptor> list(std::vector<Address> addresses);

  /// The one canonical spelling; parse() of it gives an equal Descriptor.
  [[nodiscard]] std::string to_string() const;

  /// In order of preference, never empty.
  [[nodiscard]] const std::vector<Address>& addresses() const noexcept { return addresses_; }

  [[nodiscard]] bool is_list() const noexcept { return addresses_.size() > 1; }
  /// Whether one of the addresses asks for this transport.
  [[nodiscard]] bool names(Transport transport) const noexcept;

  /// The lane's name, of the first address.
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
