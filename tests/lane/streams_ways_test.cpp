// SPDX-License-Identifier: MIT
// Which way a consumer gets, and why: the matrix of what can fail. Limits, filters and namespaces are a process's, so
// those consumers are children.
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <functional>
#include <map>

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "processes.hpp"
#include "sanitizers.hpp"
#include "streams.hpp"
#include "transport/monitor.hpp"

namespace framelane::lane_test {
namespace {

// --- what can go wrong in a consumer's process

void limit(int resource, rlim_t value) {
  const rlimit wanted{value, value};
  if (setrlimit(resource, &wanted) != 0) std::abort();
}

rlim_t address_space() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

/// A stream needs three descriptors, shared memory four.
bool few_descriptors() {
  int last = -1;
  for (int i = 0; i < 64; ++i) last = open("/dev/null", O_RDONLY | O_CLOEXEC);  // fills the gaps below
  limit(RLIMIT_NOFILE, static_cast<rlim_t>(last) + 1 + 3);
  return true;
}

bool little_address_space() {
  limit(RLIMIT_AS, address_space() + (64u << 20));
  return true;
}

/// A sandbox that lets nothing be mapped that others can write.
bool no_shared_mappings() {
#ifdef SYS_mmap2
  constexpr unsigned kMap = SYS_mmap2;
#else
  constexpr unsigned kMap = SYS_mmap;
#endif
  constexpr std::size_t kFlags =
      offsetof(seccomp_data, args[3]) + (std::endian::native == std::endian::little ? 0 : sizeof(std::uint32_t));
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMap, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/// Another mount namespace: the lane's directory isn't there.
bool own_mounts(const std::string& directory) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", directory.c_str(), "tmpfs", 0, nullptr) == 0;
}

/// Another network namespace: nothing is there, not even loopback.
bool own_network() { return unshare(CLONE_NEWNET) == 0; }

constexpr uid_t kAnotherUser = 12'345;

/// Of no group that matters. Root's alone.
bool another_user() { return setgroups(0, nullptr) == 0 && setgid(kAnotherUser) == 0 && setuid(kAnotherUser) == 0; }

bool trouble(const std::string& name) {
  if (name == "few-descriptors") return few_descriptors();
  if (name == "little-address-space") return little_address_space();
  if (name == "no-shared-mappings") return no_shared_mappings();
  if (name == "own-mounts") return own_mounts(std::getenv("FRAMELANE_DIR"));
  if (name == "own-network") return own_network();
  if (name == "another-user") return another_user();
  return name == "none";
}

std::string how(const Consumer& consumer) { return consumer.transport() + " | " + consumer.transport_reason(); }

/// Arguments: descriptor, trouble, and "soon" if it shall give up soon. Says how it is connected, and then, whenever it
/// is told a number, takes up to that frame, says it again, and how many it skipped.
const RoleOf kWayRole("way", [](Channel& parent, const Arguments& arguments) {
  ConsumerSettings settings;
  settings.lane = arguments.at(0);
  settings.connect_timeout = arguments.size() > 2 ? 500ms : kPatience;
  auto consumer = Consumer::open(settings);
  if (!consumer) return 1;
  // What a process makes once is there before the trouble.
  {
    ConsumerSettings nobody;
    nobody.lane = "nobody";
    nobody.connect_timeout = 0ns;
    static_cast<void>(transport::Monitor::instance());
    static_cast<void>(Consumer::open(nobody)->take(0ns));
  }
  if (!trouble(arguments.at(1))) {
    parent.send("skip: " + arguments.at(1) + " can't be had: " + std::strerror(errno));
    return 0;
  }
  const auto tell = [&](const Result<void>& done) {
    parent.send(done ? how(*consumer) : std::string(to_string(done.error().code)) + " | " + done.error().text);
  };
  tell(consumer->connect(kPatience));
  std::uint64_t next = 0;
  bool begun = false;
  while (const auto told = parent.receive()) {
    const std::uint64_t last = std::stoull(*told);
    Result<void> done;
    while (done && next <= last) {
      const auto frame = consumer->take(kPatience);
      if (!frame) {
        done = tl::unexpected(frame.error());
      } else if (frame->seq() != (begun ? next : frame->seq()) + frame->skipped() ||
                 !is_frame(frame->bytes(), frame->seq())) {
        done = fail(Code::kSystem, "a frame isn't what it should be");
      } else {
        next = frame->seq() + 1;
        begun = true;
      }
    }
    tell(done);
    parent.send("skipped " + std::to_string(consumer->stats().skipped));
  }
  return 0;
});

// --- the matrix

class Ways : public LaneTest {
 protected:
  [[nodiscard]] static Producer open_at(const std::string& lane, ProducerSettings settings = {}) {
    settings.lane = lane;
    auto producer = Producer::open(std::move(settings));
    if (!producer) throw std::runtime_error(producer.error().text);
    return std::move(*producer);
  }
  [[nodiscard]] static Consumer join_at(const std::string& lane, Transport transport = Transport::kAuto) {
    ConsumerSettings settings;
    settings.lane = lane;
    settings.transport = transport;
    auto consumer = Consumer::open(std::move(settings));
    if (!consumer) throw std::runtime_error(consumer.error().text);
    if (auto done = consumer->connect(kPatience); !done) throw std::runtime_error(done.error().text);
    return std::move(*consumer);
  }
  /// The address of the producer's descriptor that begins like this.
  [[nodiscard]] static std::string address_in(const Producer& producer, const std::string& scheme) {
    const std::string all = producer.descriptor();
    const auto begin = all.find(scheme);
    return all.substr(begin, all.find(',', begin) - begin);
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
};

/// What this one says begins like this, and has these words; or a skip.
#define EXPECT_WAY(said_, begin_, words_)                               \
  do {                                                                  \
    const std::string told_ = (said_);                                  \
    if (told_.rfind("skip: ", 0) == 0) GTEST_SKIP() << told_.substr(6); \
    EXPECT_EQ(told_.rfind(begin_, 0), 0u) << told_;                     \
    EXPECT_NE(told_.find(words_), std::string::npos) << told_;          \
  } while (false)

constexpr const char* kBoth = "lane,lane.tcp://127.0.0.1:0/lane";

TEST_F(Ways, SharedMemoryComesFirst) {
  Producer producer = open_at("lane");
  const Consumer consumer = join_at("lane");
  EXPECT_EQ(how(consumer), "shm | same host, descriptors passed");
  Child child("way", {"lane", "none"});
  EXPECT_WAY(child.receive(), "shm | ", "same host, descriptors passed");
}

TEST_F(Ways, WithoutDescriptorsItIsTheSocket) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer of vtables needs a pipe to look at one, and else calls it broken";
  Producer producer = open_at("lane");
  publish_frames(producer, 0, 1);  // now there are slots, in a segment that has a descriptor
  Child child("way", {"lane", "few-descriptors"});
  EXPECT_WAY(child.receive(), "uds | shm: ", "too many open files");
  publish_frames(producer, 1, 3);
  child.channel().send("3");
  EXPECT_WAY(child.receive(), "uds | shm: ", "too many open files");
}

TEST_F(Ways, InASandboxWithoutSharedMappingsItIsTheSocket) {
  Producer producer = open_at("lane");
  Child child("way", {"lane", "no-shared-mappings"});
  EXPECT_WAY(child.receive(), "uds | shm: ", "cannot map");
  publish_frames(producer, 0, 3);
  child.channel().send("2");
  EXPECT_WAY(child.receive(), "uds | shm: ", "cannot map");
}

TEST_F(Ways, WithoutAddressSpaceItIsTheSocket) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space of their own";
  Producer producer = open_at("lane");
  publish_frames(producer, 0, 1, 8u << 20);  // now there are slots, some two hundred of that size
  Child child("way", {"lane", "little-address-space"});
  EXPECT_WAY(child.receive(), "uds | shm: ", "RLIMIT_AS");
  publish_frames(producer, 1, 3);
  child.channel().send("3");
  EXPECT_WAY(child.receive(), "uds | shm: ", "RLIMIT_AS");
}

TEST_F(Ways, WhoLosesSharedMemoryForWantOfMemoryGoesOnOverTheSocketAndLosesNothing) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space of their own";
  ProducerSettings settings;
  settings.full_timeout = kPatience;
  settings.stall_timeout = kForever;
  Producer producer = open_at("lane", settings);
  publish_frames(producer, 0, 1);
  Child child("way", {"lane", "little-address-space"});
  EXPECT_WAY(child.receive(), "shm | ", "same host");
  publish_frames(producer, 1, 3);
  child.channel().send("3");
  EXPECT_WAY(child.receive(), "shm | ", "same host");
  EXPECT_EQ(child.receive(), "skipped 0");
  child.channel().send("40");
  publish_frames(producer, 4, 1, 8u << 20);  // it has no memory for slots of that size
  publish_frames(producer, 5, 36);           // more than the lane absorbs: the producer waits for it while it moves
  EXPECT_WAY(child.receive(), "uds | shm: ", "RLIMIT_AS");
  EXPECT_EQ(child.receive(), "skipped 0");
  EXPECT_EQ(producer.stats().dropped_full, 0u);
  EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 1; })) << "the one in shared memory has gone";
}

TEST_F(Ways, WhatIsLostBetweenTwoConnectionsToOneInstanceIsCounted) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space of their own";
  ProducerSettings settings;
  settings.leaky = Leaky::kDownstream;
  settings.burst = 4;
  Producer producer = open_at("lane", settings);
  publish_frames(producer, 0, 1);
  Child child("way", {"lane", "little-address-space"});
  EXPECT_WAY(child.receive(), "shm | ", "same host");
  publish_frames(producer, 1, 1);
  child.channel().send("1");
  EXPECT_WAY(child.receive(), "shm | ", "same host");
  EXPECT_EQ(child.receive(), "skipped 0");
  // It isn't waited for: what is still there when it comes again begins at 26.
  publish_frames(producer, 2, 28, 8u << 20);
  child.channel().send("29");
  EXPECT_WAY(child.receive(), "uds | shm: ", "RLIMIT_AS");
  EXPECT_EQ(child.receive(), "skipped 24");
}

TEST_F(Ways, AProducerOfSocketsAloneIsFoundByItsBareName) {
  Producer producer = open_at("lane.uds://" + directory_.path() + "/lane");
  Consumer consumer = join_at("lane");
  EXPECT_EQ(consumer.transport(), "uds");
  EXPECT_TRUE(has(consumer.transport_reason(), "shm: this producer shares no memory")) << consumer.transport_reason();
  publish_frames(producer, 0, 3);
  take_frames(consumer, 0, 3);
}

TEST_F(Ways, AProducerOfSharedMemoryAloneIsFoundByItsBareName) {
  Producer producer = open_at("lane.shm://" + directory_.path() + "/lane");
  EXPECT_EQ(join_at("lane").transport(), "shm");
}

TEST_F(Ways, AStreamFromThisHostMovesToSharedMemory) {
  Producer producer = open_at(kBoth);
  Consumer consumer = join_at(address_in(producer, "lane.tcp://"));
  EXPECT_EQ(how(consumer), "shm | the same instance was found on this host");
  EXPECT_TRUE(eventually([&] {  // the stream goes
    const ProducerStats stats = producer.stats();
    return stats.consumers.size() == 1 && stats.consumers[0].transport == Transport::kShm;
  }));
  publish_frames(producer, 0, 3);
  take_frames(consumer, 0, 3);
}

TEST_F(Ways, AStreamThatMovesToSharedMemoryLosesNothing) {
  ProducerSettings settings;
  settings.full_timeout = kPatience;
  Producer producer = open_at(kBoth, settings);
  std::atomic<int> came{0};
  producer.on_consumer([&](const ConsumerInfo&, bool connected, std::string_view) { came += connected ? 1 : 0; });
  std::thread publishing([&] {
    ASSERT_TRUE(ok(producer.wait_for_consumers(1, kPatience)));
    publish_frames(producer, 0, 100);  // from the first moment on at which somebody is there
  });
  Consumer consumer = join_at(address_in(producer, "lane.tcp://"));
  EXPECT_EQ(consumer.transport(), "shm");
  take_frames(consumer, 0, 100);
  publishing.join();
  EXPECT_EQ(consumer.stats().skipped, 0u);
  EXPECT_EQ(came, 1) << "one consumer, not two";
}

TEST_F(Ways, AStreamFromThisHostStaysOneWhereThatIsAskedFor) {
  Producer producer = open_at(kBoth);
  Consumer consumer = join_at(address_in(producer, "lane.tcp://"), Transport::kTcp);
  EXPECT_EQ(how(consumer), "tcp | asked for: transport=tcp");
  publish_frames(producer, 0, 3);
  take_frames(consumer, 0, 3);
}

TEST_F(Ways, AStreamFromThisHostStaysOneWhereSharedMemoryCannotBeMapped) {
  Producer producer = open_at(kBoth);
  Child child("way", {address_in(producer, "lane.tcp://"), "no-shared-mappings"});
  EXPECT_WAY(child.receive(), "tcp | shm: ", "cannot map");
  publish_frames(producer, 0, 3);
  child.channel().send("2");
  EXPECT_WAY(child.receive(), "tcp | shm: ", "cannot map");
}

TEST_F(Ways, AnotherHostWithTheSameBootIdStaysOnItsStream) {
  // A lane of that name is here, too, but another producer's.
  Producer here = open_at("lane");
  wire::Welcome welcome = good_welcome();
  welcome.served = here.descriptor() + ",lane.tcp://192.0.2.7:7411/lane";
  const FakeProducer there(Transport::kTcp, directory_.path(), welcome);
  const Consumer consumer = join_at(there.descriptor());
  EXPECT_EQ(how(consumer), "tcp | the descriptor names a TCP address");
  EXPECT_EQ(consumer.producer_id(), welcome.instance_id);
  EXPECT_TRUE(eventually([&] { return here.num_consumers() == 0; }));
}

TEST_F(Ways, AnotherHostThatServesAPathThatIsNotHereStaysOnItsStream) {
  wire::Welcome welcome = good_welcome();
  welcome.served = "lane.shm:///nowhere/at-all/lane";
  const FakeProducer there(Transport::kTcp, directory_.path(), welcome);
  const Consumer consumer = join_at(there.descriptor());
  EXPECT_EQ(consumer.transport(), "tcp");
  EXPECT_TRUE(has(consumer.transport_reason(), "shm: ")) << consumer.transport_reason();
}

TEST_F(Ways, InAnotherMountNamespaceItIsTcp) {
  Producer producer = open_at(kBoth);
  Child child("way", {"lane," + address_in(producer, "lane.tcp://"), "own-mounts"});
  EXPECT_WAY(child.receive(), "tcp | shm: ", "cannot");
  publish_frames(producer, 0, 3);
  child.channel().send("2");
  EXPECT_WAY(child.receive(), "tcp | shm: ", "cannot");
}

TEST_F(Ways, InAnotherNetworkNamespaceItIsTheFile) {
  Producer producer = open_at(kBoth);
  Child child("way", {address_in(producer, "lane.tcp://") + ",lane", "own-network"});
  EXPECT_WAY(child.receive(), "shm | tcp: ", "etwork is unreachable");
  publish_frames(producer, 0, 3);
  child.channel().send("2");
  EXPECT_WAY(child.receive(), "shm | tcp: ", "etwork is unreachable");
}

TEST_F(Ways, InAnotherNetworkNamespaceASocketOfFilesServes) {
  Producer producer = open_at("lane.uds://" + directory_.path() + "/lane");
  Child child("way", {"lane.uds://" + directory_.path() + "/lane", "own-network"});
  EXPECT_WAY(child.receive(), "uds | ", "names a Unix domain socket");
}

TEST_F(Ways, WhereTheStreamsSocketIsGoneItIsTcp) {
  Producer producer = open_at(kBoth);
  ASSERT_TRUE(std::filesystem::remove(directory_.path() + "/lane.stream"));
  Child child("way", {"lane," + address_in(producer, "lane.tcp://"), "no-shared-mappings"});
  const std::string told = child.receive();
  EXPECT_WAY(told, "tcp | shm: ", "; uds: cannot connect to");
  EXPECT_TRUE(has(told, "lane.stream': ")) << told;
}

// --- another user

class AnotherUser : public Ways, public ::testing::WithParamInterface<Transport> {
 protected:
  [[nodiscard]] std::string address() const {
    return "lane." + std::string(to_string(GetParam())) + "://" + directory_.path() + "/lane";
  }
  /// As an administrator might, so that the producer has to decide.
  void open_the_files() const {
    using std::filesystem::perms;
    std::filesystem::permissions(directory_.path(), perms::owner_all | perms::group_exec | perms::others_exec);
    for (const char* const file : {"/lane", "/lane.stream"}) {
      if (std::filesystem::exists(directory_.path() + file))
        std::filesystem::permissions(directory_.path() + file, perms::all & ~perms::owner_exec);
    }
  }
};

TEST_P(AnotherUser, IsKeptOutByTheLanesDirectory) {
  const Producer producer = open_at(address());
  Child child("way", {address(), "another-user", "soon"});
  EXPECT_WAY(child.receive(), "permission | ",
             GetParam() == Transport::kShm ? "this user may not" : "Permission denied");
}

TEST_P(AnotherUser, IsRefusedByTheProducerWhereTheFilesAreOpen) {
  const Producer producer = open_at(address());
  open_the_files();
  Child child("way", {address(), "another-user", "soon"});
  EXPECT_WAY(child.receive(), "permission | ",
             GetParam() == Transport::kShm ? "this lane is for its owner and root only"
                                           : "the producer doesn't let you read this lane");
  EXPECT_EQ(producer.num_consumers(), 0u);
}

TEST_P(AnotherUser, JoinsWithoutGatingWhereItIsLetIn) {
  ProducerSettings settings;
  std::atomic<uid_t> asked{0};
  settings.authorize = [&](const PeerInfo& peer) {
    asked = peer.uid;
    return peer.uid == kAnotherUser ? Admission::kNoGating : Admission::kRefused;
  };
  Producer producer = open_at(address(), settings);
  open_the_files();
  Child child("way", {address(), "another-user"});
  EXPECT_WAY(child.receive(), to_string(GetParam()), "");
  EXPECT_EQ(asked, kAnotherUser);
  const ProducerStats stats = producer.stats();
  ASSERT_EQ(stats.consumers.size(), 1u);
  EXPECT_FALSE(stats.consumers[0].gating);
  EXPECT_EQ(stats.consumers[0].uid, kAnotherUser);
  publish_frames(producer, 0, 3);
  child.channel().send("2");
  EXPECT_WAY(child.receive(), to_string(GetParam()), "");
  EXPECT_EQ(child.receive(), "skipped 0");
}

/// Arguments: the lane. Says its descriptor, and waits.
const RoleOf kProducerOfAnotherUser("producer-of-another-user", [](Channel& parent, const Arguments& arguments) {
  if (!another_user()) {
    parent.send(std::string("skip: another user can't be had: ") + std::strerror(errno));
    return 0;
  }
  ProducerSettings settings;
  settings.lane = arguments.at(0);
  const auto producer = Producer::open(settings);
  parent.send(producer ? producer->descriptor() : "error: " + producer.error().text);
  static_cast<void>(parent.receive());
  return 0;
});

TEST_P(AnotherUser, SFramesAreNotTaken) {
  if (geteuid() == 0) {
    ASSERT_EQ(chown(directory_.path().c_str(), kAnotherUser, kAnotherUser), 0);
  }
  Child child("producer-of-another-user", {address()});
  EXPECT_WAY(child.receive(), "lane.", "lane");
  ConsumerSettings settings;
  settings.lane = address();
  auto consumer = Consumer::open(settings);
  ASSERT_TRUE(ok(consumer));
  EXPECT_TRUE(fails_with(consumer->connect(kPatience), Code::kPermission,
                         "runs as another user (uid 12345); lanes are only taken from the same user or root"));
}

INSTANTIATE_TEST_SUITE_P(Transports, AnotherUser, ::testing::Values(Transport::kShm, Transport::kUds), transport_name);

// --- nothing works

TEST_F(Ways, WhenAllAreRefusedTheErrorListsThemAll) {
  Producer producer = open_at("lane");
  ASSERT_TRUE(std::filesystem::remove(directory_.path() + "/lane.stream"));
  const std::string closed = Listener(Transport::kTcp, directory_.path()).descriptor();
  Child child("way", {"lane," + closed, "no-shared-mappings", "soon"});
  const std::string told = child.receive();
  EXPECT_WAY(told, "not-found | no connection to ", "(shm: cannot map");
  EXPECT_TRUE(has(told, "; uds: cannot connect to")) << told;
  EXPECT_TRUE(has(told, "; tcp: ")) << told;
  EXPECT_TRUE(has(told, "refused")) << told;
  EXPECT_TRUE(has(told, "start the producer")) << told;
}

}  // namespace
}  // namespace framelane::lane_test
