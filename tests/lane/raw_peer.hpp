// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "base/clock.hpp"
#include "lanes.hpp"
#include "memory/sealed_memory.hpp"
#include "ring/layout.hpp"
#include "transport/control_server.hpp"
#include "transport/control_socket.hpp"
#include "wire/control_message.hpp"

// Peers that speak the protocol by themselves, and so can break it.
namespace framelane::lane_test {

[[nodiscard]] inline std::int64_t patience_ns() { return base::deadline_after(kPatience); }

[[nodiscard]] inline wire::Hello good_hello() {
  wire::Hello hello;
  hello.max_held = 4;
  hello.abi_version = ring::kAbiVersion;
  hello.transports = wire::kTransportShm;
  hello.max_frame_size = 256u << 20;
  hello.name = "raw";
  return hello;
}

/// A consumer that was welcomed.
class RawConsumer {
 public:
  explicit RawConsumer(const std::string& path, const wire::Hello& hello = good_hello()) : socket_(connect(path)) {
    EXPECT_TRUE(socket_.send(wire::encode(hello, 0)).has_value());
    auto received = socket_.receive_until(patience_ns());
    if (!received) throw std::runtime_error(received.error().text);
    auto decoded = wire::decode(received->bytes);
    if (!decoded) throw std::runtime_error(decoded.error().text);
    if (!std::holds_alternative<wire::Welcome>(decoded->message)) throw std::runtime_error("not welcomed");
    welcome = std::get<wire::Welcome>(std::move(decoded->message));
    fds = std::move(received->fds);
    void* const memory = mmap(nullptr, sizeof(ring::ConsumerPage), PROT_READ | PROT_WRITE, MAP_SHARED, fds[1].get(), 0);
    if (memory == MAP_FAILED) throw std::runtime_error("the page can't be mapped");
    mapping_ = memory::Mapping(memory, sizeof(ring::ConsumerPage));
  }

  [[nodiscard]] transport::ControlSocket& socket() noexcept { return socket_; }
  [[nodiscard]] ring::ConsumerPage& page() noexcept { return *reinterpret_cast<ring::ConsumerPage*>(mapping_.data()); }

  /// Waits until the producer has ended the connection.
  [[nodiscard]] bool is_cut_off() {
    for (;;) {
      const auto received = socket_.receive_until(patience_ns());
      if (!received) return received.error().code == Code::kPeerLost;
    }
  }

  wire::Welcome welcome;
  std::vector<base::UniqueFd> fds;  // ring, page, segments

 private:
  static transport::ControlSocket connect(const std::string& path) {
    auto socket = transport::ControlSocket::connect(path);
    if (!socket) throw std::runtime_error(socket.error().text);
    return std::move(*socket);
  }

  transport::ControlSocket socket_;
  memory::Mapping mapping_;
};

}  // namespace framelane::lane_test
