// SPDX-License-Identifier: MIT
#include "transport/control_socket.hpp"

#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "memory/sealed_memory.hpp"
#include "support.hpp"
#include "transport/lane_files.hpp"

namespace framelane::transport {
namespace {
using Bytes = std::vector<std::byte>;

/// A message with a text of `size` bytes.
Bytes text_message(std::size_t size) {
  wire::EventMessage event;
  event.event.text.assign(size, 's');
  return wire::encode(event, 0);
}

Bytes numbered(std::uint64_t number) { return wire::encode(wire::RetireSegment{7}, number); }

std::uint64_t number_in(const Received& received) {
  const auto decoded = wire::decode(received.bytes);
  EXPECT_TRUE(decoded.has_value()) << decoded.error().text;
  return decoded ? decoded->number : 0;
}

base::UniqueFd memfd(std::size_t size = 4096) {
  base::UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  return fd;
}

ino_t inode_of(int fd) {
  struct stat status {};
  EXPECT_EQ(fstat(fd, &status), 0);
  return status.st_ino;
}

bool readable(int fd, int wait_ms) {
  pollfd wanted{fd, POLLIN, 0};
  return poll(&wanted, 1, wait_ms) == 1;
}

base::UniqueFd listen_at(const std::string& path, int type, int backlog) {
  base::UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(fd.get(), backlog), 0);
  return fd;
}

Code connect_code(const std::string& path) {
  const auto connected = ControlSocket::connect(path);
  return connected ? Code{} : connected.error().code;
}

TEST(ControlSocket, SaysWhyItCannotConnect) {
  const TempDirectory temp;
  EXPECT_EQ(connect_code(temp / "nothing"), Code::kNotFound);
  EXPECT_EQ(connect_code(temp / "no/where"), Code::kNotFound);
  std::ofstream(temp / "file") << "x";
  EXPECT_EQ(connect_code(temp / "file"), Code::kInvalidArgument);
  const auto stream = listen_at(temp / "stream", SOCK_STREAM, 1);
  EXPECT_EQ(connect_code(temp / "stream"), Code::kInvalidArgument);
  EXPECT_EQ(connect_code(""), Code::kInvalidArgument);
  const auto error = ControlSocket::connect(temp / "nothing").error();
  EXPECT_TRUE(has(error.text, temp / "nothing")) << error.text;
}

TEST(ControlSocket, SaysThatAnotherUserMayNotConnect) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const TempDirectory temp;
  const auto claimed = LaneFiles::claim(temp.path(), "cam0");
  ASSERT_TRUE(claimed.has_value());
  ASSERT_EQ(chmod(temp.path().c_str(), 0755), 0);  // so that only the socket's own mode refuses
  Child child([&] {
    if (setresuid(65534, 65534, 65534) != 0) return 99;
    return static_cast<int>(connect_code(temp / "cam0"));
  });
  EXPECT_EQ(child.wait(), static_cast<int>(Code::kPermission));
}

TEST(ControlSocket, AFullBacklogIsAReasonToTryAgain) {
  const TempDirectory temp;
  const auto listener = listen_at(temp / "busy", SOCK_SEQPACKET, 0);
  std::vector<ControlSocket> connections;
  Code code{};
  for (int i = 0; i < 10 && code == Code{}; ++i) {
    auto connected = ControlSocket::connect(temp / "busy");
    if (connected) {
      connections.push_back(std::move(*connected));
    } else {
      code = connected.error().code;
    }
  }
  EXPECT_EQ(code, Code::kTimeout);
  EXPECT_FALSE(connections.empty());
}

TEST(ControlSocket, CarriesMessagesInOrder) {
  Pair pair = connected_pair();
  EXPECT_FALSE((*pair.consumer.receive()).has_value());
  for (std::uint64_t i = 1; i <= 50; ++i) EXPECT_EQ(pair.producer.send(numbered(i)), SendOutcome::kSent);
  for (std::uint64_t i = 1; i <= 50; ++i) {
    const auto received = pair.consumer.receive();
    ASSERT_TRUE(received && *received);
    EXPECT_EQ(number_in(**received), i);
    EXPECT_TRUE((*received)->fds.empty());
  }
  EXPECT_FALSE((*pair.consumer.receive()).has_value());
}

TEST(ControlSocket, CarriesDescriptorsInOrder) {
  Pair pair = connected_pair();
  std::vector<base::UniqueFd> files;
  std::vector<int> fds;
  for (std::size_t i = 0; i < wire::kMaxFds; ++i) fds.push_back(files.emplace_back(memfd()).get());
  ASSERT_EQ(pair.producer.send(numbered(1), fds), SendOutcome::kSent);
  const auto received = pair.consumer.receive();
  ASSERT_TRUE(received && *received);
  ASSERT_EQ((*received)->fds.size(), fds.size());
  for (std::size_t i = 0; i < fds.size(); ++i) {
    EXPECT_EQ(inode_of((*received)->fds[i].get()), inode_of(fds[i]));
    EXPECT_NE(fcntl((*received)->fds[i].get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  fds.push_back(0);
  EXPECT_EQ(pair.producer.send(numbered(1), fds).error().code, Code::kTooLarge);
}

TEST(ControlSocket, ALargeMessageTravelsInSealedMemory) {
  Pair pair = connected_pair();
  format::Event tags;
  tags.type = format::EventType::kTag;
  for (int i = 0; tags.text.size() < (std::size_t{1} << 20); ++i) tags.text += std::to_string(i);
  const Bytes encoded = wire::encode(wire::EventMessage{tags, 99}, 5);
  const auto file = memfd();
  const std::size_t before = open_fds();
  {
    const auto outgoing = make_outgoing(encoded, {*share_fd(file.get())});
    ASSERT_TRUE(outgoing.has_value()) << outgoing.error().text;
    EXPECT_EQ((*outgoing)->datagram.size(), wire::kHeaderBytes);
    EXPECT_GT((*outgoing)->cost, encoded.size());
    ASSERT_EQ(pair.producer.send(**outgoing), SendOutcome::kSent);
    ASSERT_EQ(pair.producer.send(**outgoing), SendOutcome::kSent);
    const int one[] = {file.get()};
    ASSERT_EQ(pair.producer.send(encoded, one), SendOutcome::kSent);
  }
  for (int i = 0; i < 3; ++i) {
    const auto received = pair.consumer.receive();
    ASSERT_TRUE(received.has_value()) << received.error().text;
    ASSERT_TRUE(received->has_value());
    EXPECT_EQ((*received)->bytes, encoded);
    ASSERT_EQ((*received)->fds.size(), 1u) << "the memfd of the payload stays inside";
    EXPECT_EQ(inode_of((*received)->fds[0].get()), inode_of(file.get()));
  }
  EXPECT_EQ(open_fds(), before);
}

TEST(ControlSocket, TheLargestInlineMessageNeedsNoMemory) {
  Pair pair = connected_pair();
  const std::size_t room = wire::kMaxInlineBytes - text_message(0).size();
  for (const std::size_t extra : {std::size_t{0}, std::size_t{1}}) {
    const Bytes encoded = text_message(room + extra);
    const auto outgoing = make_outgoing(encoded);
    ASSERT_TRUE(outgoing.has_value());
    EXPECT_EQ((*outgoing)->fds.size(), extra);
    ASSERT_EQ(pair.producer.send(**outgoing), SendOutcome::kSent);
    const auto received = pair.consumer.receive();
    ASSERT_TRUE(received && *received);
    EXPECT_EQ((*received)->bytes, encoded);
  }
}

TEST(ControlSocket, AMessageBeyondEveryLimitIsNotSent) {
  Bytes huge(wire::kMaxMessageBytes + 1);
  EXPECT_EQ(make_outgoing(std::move(huge)).error().code, Code::kTooLarge);
}

TEST(ControlSocket, AFullSocketSaysSoAndLosesNothing) {
  Pair pair = connected_pair();
  std::uint64_t sent = 0;
  Result<SendOutcome> outcome = SendOutcome::kSent;
  while (true) {
    outcome = pair.producer.send(numbered(sent + 1));
    if (!outcome || *outcome != SendOutcome::kSent) break;
    ++sent;
    ASSERT_LT(sent, 1'000'000u);
  }
  EXPECT_EQ(outcome, SendOutcome::kWouldBlock);
  EXPECT_GT(sent, 10u);
  for (std::uint64_t i = 1; i <= sent; ++i) {
    const auto received = pair.consumer.receive();
    ASSERT_TRUE(received && *received);
    ASSERT_EQ(number_in(**received), i);
  }
  EXPECT_EQ(pair.producer.send(numbered(sent + 1)), SendOutcome::kSent);
}

TEST(ControlSocket, AProducerTakesNoDescriptors) {
  Pair pair = connected_pair();
  const auto file = memfd();
  const std::size_t before = open_fds();
  for (int i = 0; i < 5; ++i) {
    ASSERT_GT(send_raw(pair.consumer.fd(), numbered(1), {file.get(), file.get()}), 0);
    const auto received = pair.producer.receive();
    ASSERT_FALSE(received.has_value());
    EXPECT_EQ(received.error().code, Code::kProtocol);
    EXPECT_TRUE(has(received.error().text, "sent file descriptors")) << received.error().text;
    EXPECT_EQ(open_fds(), before);
  }
  // Not even for the payload of a large message.
  const Bytes large = text_message(200'000);
  ASSERT_EQ(pair.consumer.send(large), SendOutcome::kSent);
  EXPECT_EQ(pair.producer.receive().error().code, Code::kProtocol);
  EXPECT_EQ(open_fds(), before);
}

TEST(ControlSocket, TooManyDescriptorsAreClosed) {
  Pair pair = connected_pair();
  const auto file = memfd();
  const std::size_t before = open_fds();
  for (const std::size_t count : {wire::kMaxFds + 1, std::size_t{100}, std::size_t{253}}) {
    ASSERT_GT(send_raw(pair.producer.fd(), numbered(1), std::vector<int>(count, file.get())), 0);
    EXPECT_EQ(pair.consumer.receive().error().code, Code::kProtocol);
    EXPECT_EQ(open_fds(), before);
  }
}

TEST(ControlSocket, DescriptorsThatDontFitIntoOurTableAreOurOwnFault) {
  Pair pair = connected_pair();
  const auto file = memfd();
  ASSERT_GT(send_raw(pair.producer.fd(), numbered(1), {file.get(), file.get()}), 0);
  Child child([&] {
    const base::UniqueFd next(dup(0));
    const rlimit none{static_cast<rlim_t>(next.get()) + 2, static_cast<rlim_t>(next.get()) + 2};  // one is free
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 99;
    const auto received = pair.consumer.receive();
    return received ? 98 : static_cast<int>(received.error().code);
  });
  EXPECT_EQ(child.wait(), static_cast<int>(Code::kSystem));
}

TEST(ControlSocket, AnOversizedDatagramIsAnError) {
  Pair pair = connected_pair();
  ASSERT_GT(send_raw(pair.producer.fd(), Bytes(wire::kMaxInlineBytes + 1)), 0);
  const auto received = pair.consumer.receive();
  ASSERT_FALSE(received.has_value());
  EXPECT_EQ(received.error().code, Code::kProtocol);
}

TEST(ControlSocket, APayloadElsewhereMustBeSealedAndOfTheRightSize) {
  Pair pair = connected_pair();
  const Bytes large = text_message(100'000);
  Bytes header(large.begin(), large.begin() + wire::kHeaderBytes);
  wire::set_flags(header, wire::kFlagPayloadInMemfd);
  const auto unsealed = memfd(memory::round_up(large.size() - wire::kHeaderBytes, memory::page_size()));
  auto small = memory::create_sealed("test", 4096, memory::Sharing::kReadOnly);
  const base::UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(small.has_value());
  const std::size_t before = open_fds();
  for (const std::vector<int>& fds : {std::vector<int>{},
                                      {unsealed.get()},
                                      {small->fd.get()},
                                      {null.get()},
                                      {pair.producer.fd()},
                                      {null.get(), unsealed.get()}}) {
    ASSERT_GT(send_raw(pair.producer.fd(), header, fds), 0);
    const auto received = pair.consumer.receive();
    ASSERT_FALSE(received.has_value());
    EXPECT_EQ(received.error().code, Code::kProtocol) << received.error().text;
    EXPECT_EQ(open_fds(), before);
  }
  Bytes both = large;  // the flag, and a payload all the same
  both.resize(wire::kHeaderBytes + 10);
  wire::set_flags(both, wire::kFlagPayloadInMemfd);
  ASSERT_GT(send_raw(pair.producer.fd(), both, {small->fd.get()}), 0);
  EXPECT_EQ(pair.consumer.receive().error().code, Code::kProtocol);
  EXPECT_EQ(open_fds(), before);
}

TEST(ControlSocket, WhatThePeerSaidBeforeItDiedIsStillHeard) {
  for (const bool with_unread : {false, true}) {
    Pair pair = connected_pair();
    // An unread message makes the kernel report a reset before it hands out what the peer had sent.
    if (with_unread) {
      ASSERT_EQ(pair.consumer.send(numbered(9)), SendOutcome::kSent);
    }
    for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(pair.producer.send(numbered(i)), SendOutcome::kSent);
    { const ControlSocket gone = std::move(pair.producer); }
    for (std::uint64_t i = 1; i <= 3; ++i) {
      const auto received = pair.consumer.receive();
      ASSERT_TRUE(received.has_value()) << received.error().text;
      ASSERT_TRUE(received->has_value());
      EXPECT_EQ(number_in(**received), i);
    }
    EXPECT_EQ(pair.consumer.receive().error().code, Code::kPeerLost);
    EXPECT_EQ(pair.consumer.send(numbered(1)).error().code, Code::kPeerLost);
  }
}

TEST(ControlSocket, AnEmptyDatagramIsNoMessage) {
  Pair pair = connected_pair();
  ASSERT_EQ(send_raw(pair.consumer.fd(), {}), 0);
  EXPECT_EQ(pair.producer.receive().error().code, Code::kPeerLost);
}

TEST(ControlSocket, ShutdownIsSeenByThePeer) {
  Pair pair = connected_pair();
  pair.producer.shutdown();
  EXPECT_TRUE(readable(pair.consumer.fd(), 20'000));
  EXPECT_EQ(pair.consumer.receive().error().code, Code::kPeerLost);
  EXPECT_EQ(pair.producer.send(numbered(1)).error().code, Code::kPeerLost);
}

TEST(ControlSocket, WhoHasFinishedStillListens) {
  Pair pair = connected_pair();
  ASSERT_EQ(pair.producer.send(numbered(1)), SendOutcome::kSent);
  pair.producer.finish();
  EXPECT_EQ(pair.producer.send(numbered(2)).error().code, Code::kPeerLost);
  const auto received = pair.consumer.receive();
  ASSERT_TRUE(received && *received);
  EXPECT_EQ(pair.consumer.receive().error().code, Code::kPeerLost);
  ASSERT_EQ(pair.consumer.send(numbered(3)), SendOutcome::kSent);
  const auto answer = pair.producer.receive();
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ(number_in(**answer), 3u);
  EXPECT_FALSE((*pair.producer.receive()).has_value());
  { const ControlSocket gone = std::move(pair.consumer); }
  EXPECT_EQ(pair.producer.receive().error().code, Code::kPeerLost);
}

TEST(ControlSocket, WaitsForAMessageUntilTheDeadline) {
  Pair pair = connected_pair();
  const std::int64_t deadline = base::deadline_after(std::chrono::milliseconds(30));
  EXPECT_EQ(pair.consumer.receive_until(deadline).error().code, Code::kTimeout);
  EXPECT_GE(base::monotonic_ns(), deadline);
  Child child([&] {
    usleep(20'000);
    return pair.producer.send(numbered(4)) == SendOutcome::kSent ? 0 : 1;
  });
  const auto received = pair.consumer.receive_until(soon());
  ASSERT_TRUE(received.has_value()) << received.error().text;
  EXPECT_EQ(number_in(*received), 4u);
  EXPECT_EQ(child.wait(), 0);
}

TEST(ControlSocket, KnowsThePeersProcess) {
  const TempDirectory temp;
  const auto claimed = LaneFiles::claim(temp.path(), "cam0");
  ASSERT_TRUE(claimed.has_value());
  const Signal connected;
  const Signal end;
  Child child([&] {
    const auto socket = ControlSocket::connect(temp / "cam0");
    if (!socket) return 1;
    connected.send();
    if (socket->peer().pid != getppid()) return 3;  // the one that listens
    return end.wait() ? 0 : 2;
  });
  ASSERT_TRUE(connected.wait());
  const ControlSocket socket(
      base::UniqueFd(accept4(claimed->listener(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)), AcceptFds::kNo);
  ASSERT_TRUE(socket.valid());
  EXPECT_EQ(socket.peer().pid, child.pid());
  EXPECT_EQ(socket.peer().uid, getuid());
  EXPECT_EQ(socket.peer().gid, getgid());
  EXPECT_TRUE(socket.peer().known());
  end.send();
  EXPECT_EQ(child.wait(), 0);
}

TEST(ControlSocket, APeersDeathIsSeenAlthoughItsChildKeepsTheSocket) {
  const TempDirectory temp;
  const auto claimed = LaneFiles::claim(temp.path(), "cam0");
  ASSERT_TRUE(claimed.has_value());
  const Signal connected;
  const Signal end;
  Child child([&] {
    const auto socket = ControlSocket::connect(temp / "cam0");
    if (!socket) return 1;
    if (fork() == 0) {
      connected.send();
      (void)end.wait();
      _exit(0);
    }
    pause();
    return 2;
  });
  ASSERT_TRUE(connected.wait());
  ControlSocket socket(base::UniqueFd(accept4(claimed->listener(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)),
                       AcceptFds::kNo);
  const auto pidfd = socket.peer_pidfd();
  ASSERT_TRUE(pidfd.has_value()) << pidfd.error().text;
  EXPECT_FALSE(readable(pidfd->get(), 0));
  child.kill(SIGKILL);
  EXPECT_TRUE(readable(pidfd->get(), 20'000));
  EXPECT_FALSE((*socket.receive()).has_value())
      << "the socket itself must not have hung up, else this test shows nothing";
  end.send();
}

TEST(PeerCredentials, AreUnknownAcrossNamespaces) {
  EXPECT_TRUE((PeerCredentials{1, 0, 0}.known()));
  EXPECT_FALSE((PeerCredentials{0, 1000, 1000}.known()));
  EXPECT_FALSE((PeerCredentials{1234, 65534, 1000}.known()));
  EXPECT_FALSE(PeerCredentials{}.known());
}

}  // namespace
}  // namespace framelane::transport
