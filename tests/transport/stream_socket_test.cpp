// SPDX-License-Identifier: MIT
#include "transport/stream_socket.hpp"

#include <fstream>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.hpp"
#include "support.hpp"
#include "transport/byte_stream.hpp"

namespace framelane::transport {
namespace {

Code code_of(const Result<base::UniqueFd>& result) {
  EXPECT_FALSE(result.has_value());
  return result ? Code::kEndOfStream : result.error().code;
}

/// Sends a byte from `one` to the connection that `listener` accepts.
void pass_a_byte(base::UniqueFd one, const base::UniqueFd& listener) {
  ASSERT_TRUE(eventually([&] { return wait_for(listener.get(), POLLIN, -1, soon()).has_value(); }));
  SocketStream accepted(base::UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  tune_stream(one.get(), 3'110'400);
  SocketStream sender(std::move(one));
  char byte = 'x';
  const iovec out{&byte, 1};
  EXPECT_EQ(sender.send({&out, 1}).value_or(0), 1u);
  ASSERT_TRUE(wait_for(accepted.fd(), POLLIN, -1, soon()));
  char got = 0;
  const iovec in{&got, 1};
  EXPECT_EQ(accepted.receive({&in, 1}).value_or(0), 1u);
  EXPECT_EQ(got, 'x');
  sender.shutdown();
  EXPECT_EQ(accepted.receive({&in, 1}).error().code, Code::kPeerLost);
}

TEST(StreamSocket, UdsConnects) {
  const TempDirectory temp;
  const auto listener = listen_uds(temp / "cam0.stream");
  ASSERT_TRUE(listener) << listener.error().text;
  struct stat status {};
  ASSERT_EQ(stat((temp / "cam0.stream").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  auto one = connect_uds(temp / "cam0.stream");
  ASSERT_TRUE(one) << one.error().text;
  pass_a_byte(std::move(*one), *listener);
}

TEST(StreamSocket, UdsReplacesAStaleSocketAndNothingElse) {
  const TempDirectory temp;
  { const auto dead = listen_uds(temp / "cam0.stream"); }
  EXPECT_EQ(code_of(connect_uds(temp / "cam0.stream")), Code::kNotFound);
  EXPECT_TRUE(listen_uds(temp / "cam0.stream"));
  std::ofstream(temp / "file") << "precious";
  EXPECT_EQ(code_of(listen_uds(temp / "file")), Code::kInvalidArgument);
  EXPECT_EQ(code_of(listen_uds(temp / std::string(200, 'x'))), Code::kTooLarge);
  EXPECT_EQ(code_of(connect_uds(temp / "nothing")), Code::kNotFound);
}

TEST(StreamSocket, TcpConnectsByAddressAndByName) {
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const auto listener = listen_tcp(host, 0);
    ASSERT_TRUE(listener) << listener.error().text;
    const auto port = local_port(listener->get());
    ASSERT_TRUE(port && *port != 0);
    auto one = begin_tcp(host, *port);
    ASSERT_TRUE(one) << one.error().text;
    pass_a_byte(std::move(*one), *listener);
  }
}

TEST(StreamSocket, TcpSaysWhyItCannot) {
  const auto listener = listen_tcp("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  const std::uint16_t port = *local_port(listener->get());
  const auto again = listen_tcp("127.0.0.1", port);
  EXPECT_EQ(code_of(again), Code::kInUse);
  EXPECT_TRUE(has(again.error().text, "127.0.0.1:" + std::to_string(port))) << again.error().text;
  EXPECT_EQ(code_of(listen_tcp("192.0.2.1", 0)), Code::kNotFound);  // not this machine's
  std::uint16_t free_port = 0;
  {
    const auto short_lived = listen_tcp("127.0.0.1", 0);
    ASSERT_TRUE(short_lived);
    free_port = *local_port(short_lived->get());
  }
  auto refused = begin_tcp("127.0.0.1", free_port);
  if (refused) {
    SocketStream stream(std::move(*refused));
    ASSERT_TRUE(wait_for(stream.fd(), POLLIN, -1, soon()));
    char byte = 0;
    const iovec in{&byte, 1};
    EXPECT_EQ(stream.receive({&in, 1}).error().code, Code::kNotFound);
  } else {
    EXPECT_EQ(refused.error().code, Code::kNotFound);
  }
  EXPECT_EQ(code_of(begin_tcp("no such host.invalid", 1)), Code::kNotFound);
}

}  // namespace
}  // namespace framelane::transport
