// SPDX-License-Identifier: MIT
// What can be wrong from outside: each gets one Error with a sentence that says what to do.
#include <algorithm>
#include <fstream>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lanes.hpp"
#include "processes.hpp"
#include "sanitizers.hpp"

namespace framelane::lane_test {
namespace {

class BadInput : public LaneTest {
 protected:
  static Result<Producer> open_producer(const std::string& lane) {
    ProducerSettings settings;
    settings.lane = lane;
    return Producer::open(std::move(settings));
  }
  static Result<Consumer> open_consumer(const std::string& lane) {
    ConsumerSettings settings;
    settings.lane = lane;
    settings.connect_timeout = 30ms;
    return Consumer::open(std::move(settings));
  }
};

TEST_F(BadInput, NoSuchLaneWithinConnectTimeout) {
  auto consumer = open_consumer("cam0");
  ASSERT_TRUE(ok(consumer));
  EXPECT_TRUE(fails_with(consumer->take(kForever), Code::kNotFound, "start the producer"));
  EXPECT_TRUE(fails_with(consumer->connect(kForever), Code::kNotFound, "cam0"));
  EXPECT_TRUE(fails_with(consumer->connect(kForever), Code::kNotFound, "0.03 s"));
}

TEST_F(BadInput, NamesThatAreNone) {
  const std::string names[] = {"",
                               "a b",
                               "..",
                               ".",
                               "../cam0",
                               "a/b",
                               "/cam0",
                               "cam0/",
                               "cam.0",
                               "-cam",
                               "_cam",
                               "cam0\n",
                               "k\xc3\xa4se",

                               std::string(200, 'n'),
                               std::string(65, 'n'),
                               std::string("a\0b", 3)};
  for (const std::string& name : names) {
    EXPECT_TRUE(fails_with(open_producer(name), Code::kInvalidArgument, "example")) << '"' << name << '"';
    EXPECT_TRUE(fails_with(open_consumer(name), Code::kInvalidArgument, "example")) << '"' << name << '"';
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path())) << "nothing was created";
  EXPECT_TRUE(ok(open_producer(std::string(64, 'n'))));
}

TEST_F(BadInput, APathBeyondWhatASocketTakes) {
  const std::string deep = directory_.path() + "/" + std::string(100, 'd');
  std::filesystem::create_directory(deep);
  setenv("FRAMELANE_DIR", deep.c_str(), 1);
  EXPECT_TRUE(fails_with(open_producer("cam0"), Code::kTooLarge, "107"));
  EXPECT_TRUE(fails_with(open_consumer("cam0"), Code::kTooLarge, "FRAMELANE_DIR"));
  EXPECT_TRUE(fails_with(open_producer("lane.shm://" + deep + "/cam0"), Code::kTooLarge, "107"));
}

TEST_F(BadInput, ADirectoryThatIsNotAbsolute) {
  setenv("FRAMELANE_DIR", "lanes", 1);
  EXPECT_TRUE(fails_with(open_producer("cam0"), Code::kInvalidArgument, "absolute"));
  EXPECT_TRUE(fails_with(open_consumer("cam0"), Code::kInvalidArgument, "absolute"));
}

TEST_F(BadInput, ADirectoryWithoutParent) {
  setenv("FRAMELANE_DIR", (directory_.path() + "/no/such").c_str(), 1);
  EXPECT_TRUE(fails_with(open_producer("cam0"), Code::kNotFound, "create it"));
  auto consumer = open_consumer("cam0");
  ASSERT_TRUE(ok(consumer));
  EXPECT_TRUE(fails_with(consumer->connect(kForever), Code::kNotFound, "FRAMELANE_DIR"));
}

TEST_F(BadInput, ADirectoryThatIsALink) {
  const std::string link = directory_.path() + "/link";
  std::filesystem::create_directory(directory_.path() + "/real");
  std::filesystem::permissions(directory_.path() + "/real", std::filesystem::perms::owner_all);
  std::filesystem::create_directory_symlink(directory_.path() + "/real", link);
  setenv("FRAMELANE_DIR", link.c_str(), 1);
  EXPECT_TRUE(fails_with(open_producer("cam0"), Code::kPermission, "symbolic link"));
}

TEST_F(BadInput, AFileInPlaceOfTheDirectory) {
  const std::string file = directory_.path() + "/file";
  std::ofstream(file) << "x";
  setenv("FRAMELANE_DIR", file.c_str(), 1);
  EXPECT_TRUE(fails_with(open_producer("cam0"), Code::kPermission, "not a directory"));
}

TEST_F(BadInput, ADirectoryThatOthersCanWrite) {
  chmod(directory_.path().c_str(), 0777);
  EXPECT_TRUE(fails_with(open_producer("cam0"), Code::kPermission, "chmod 700"));
}

TEST_F(BadInput, ADirectoryOfSomebodyElse) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(chown(directory_.path().c_str(), 12345, 12345), 0);
  EXPECT_TRUE(fails_with(open_producer("cam0"), Code::kPermission, "belongs to user 12345"));
}

TEST_F(BadInput, AnotherFileInPlaceOfTheSocket) {
  std::ofstream(directory_.path() + "/cam0") << "mine";
  EXPECT_TRUE(fails_with(open_producer("cam0"), Code::kInvalidArgument, "not a socket"));
  EXPECT_TRUE(std::filesystem::exists(directory_.path() + "/cam0")) << "it isn't ours to remove";
}

TEST_F(BadInput, ALiveLaneOfTheSameNameInThisProcess) {
  Producer first = produce({.lane = "cam0"});
  EXPECT_TRUE(fails_with(open_producer("cam0"), Code::kInUse, std::to_string(getpid())));
  Consumer consumer = join({.lane = "cam0"});
  publish_frames(first, 0, 1);
  take_frames(consumer, 0, 1);
}

TEST_F(BadInput, AStaleSocketIsReplaced) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory_.path() + "/cam0";
  std::copy(path.begin(), path.end(), address.sun_path);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(fd);
  auto consumer = open_consumer("cam0");
  ASSERT_TRUE(ok(consumer));
  EXPECT_TRUE(fails_with(consumer->connect(kForever), Code::kNotFound, "producer is gone"));
  Producer producer = produce({.lane = "cam0"});
  Consumer patient = join({.lane = "cam0"});
  publish_frames(producer, 0, 1);
  take_frames(patient, 0, 1);
}

TEST_F(BadInput, SettingsOutOfRangeAreNamed) {
  const auto producer_with = [](const auto& change) {
    ProducerSettings settings;
    settings.lane = "cam0";
    change(settings);
    return Producer::open(std::move(settings));
  };
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.burst = 0; }), Code::kInvalidArgument, "burst is 0"));
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.burst = 5000; }), Code::kInvalidArgument, "burst"));
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.burst = 2000; }), Code::kInvalidArgument, "lower one"));
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.max_loans = 0; }), Code::kInvalidArgument, "max-loans"));
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.max_held = 0; }), Code::kInvalidArgument, "max-held"));
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.max_consumers = 33; }), Code::kInvalidArgument, "1 to 32"));
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.max_frame_size = 0; }), Code::kInvalidArgument, "max-frame"));
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.max_side_data = 65473; }), Code::kInvalidArgument, "max-side"));
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.spin_budget = 1.5; }), Code::kInvalidArgument, "spin-budget"));
  EXPECT_TRUE(fails_with(producer_with([](auto& s) { s.full_timeout = -1ns; }), Code::kInvalidArgument, "negative"));
  ConsumerSettings settings;
  settings.lane = "cam0";
  settings.max_held = 0;
  EXPECT_TRUE(fails_with(Consumer::open(settings), Code::kInvalidArgument, "max-held"));
}

// --- frames that are too large

TEST_F(BadInput, NamedPipesAreForWindows) {
  EXPECT_TRUE(fails_with(open_producer("lane.pipe://./cam0"), Code::kUnsupported, "named pipes"));
  EXPECT_TRUE(fails_with(open_consumer("lane.pipe://./cam0,cam0"), Code::kUnsupported, "named pipes"));
}

TEST_F(BadInput, AProducerHasOneLaneInOnePlace) {
  EXPECT_TRUE(fails_with(open_producer("cam0,lane.tcp://127.0.0.1:0/cam1"), Code::kInvalidArgument, "cam1"));
  const std::string here = "lane.shm://" + directory_.path() + "/cam0";
  EXPECT_TRUE(
      fails_with(open_producer(here + ",lane.uds:///run/cams/cam0"), Code::kInvalidArgument, "two directories"));
}

TEST_F(BadInput, ATransportThatTheDescriptorDoesNotName) {
  ProducerSettings settings;
  settings.lane = "cam0";
  settings.transport = Transport::kTcp;
  EXPECT_TRUE(fails_with(Producer::open(settings), Code::kInvalidArgument, "lane.tcp://"));
  ConsumerSettings other;
  other.lane = "lane.tcp://127.0.0.1:7411/cam0";
  other.transport = Transport::kShm;
  EXPECT_TRUE(fails_with(Consumer::open(other), Code::kInvalidArgument, "cam0"));
}

TEST_F(BadInput, AnAddressThatOthersReachWantsAKey) {
  EXPECT_TRUE(fails_with(open_producer("lane.tcp://0.0.0.0:0/cam0"), Code::kPermission, "psk-file"));
  ProducerSettings settings;
  settings.lane = "lane.tcp://0.0.0.0:0/cam0";
  settings.insecure = true;
  EXPECT_TRUE(ok(Producer::open(settings)));
  settings.psk_file = directory_.path() + "/none";
  EXPECT_TRUE(fails_with(Producer::open(settings), Code::kNotFound, "none"));
}

TEST_F(BadInput, AFrameBeyondTheProducersMaxFrameSize) {
  ProducerSettings settings;
  settings.max_frame_size = 1000;
  Producer producer = produce(settings);
  Consumer consumer = join();
  EXPECT_TRUE(fails_with(producer.loan(1001), Code::kTooLarge, "max-frame-size"));
  EXPECT_TRUE(fails_with(producer.try_loan(1001), Code::kTooLarge, "max-frame-size"));
  EXPECT_TRUE(fails_with(producer.publish_copy(payload(1001, 0)), Code::kTooLarge, "max-frame-size"));
  EXPECT_TRUE(fails_with(producer.reserve(1001), Code::kTooLarge, "max-frame-size"));
  publish_frames(producer, 0, 1, 1000);
  take_frames(consumer, 0, 1);
}

ConsumerSettings at_most(std::size_t bytes, bool reconnect) {
  ConsumerSettings settings;
  settings.max_frame_size = bytes;
  settings.reconnect = reconnect;
  return settings;
}

TEST_F(BadInput, SlotsBeyondTheConsumersMaxFrameSizeWhenItJoins) {
  Producer producer = produce();
  publish_frames(producer, 0, 1, 5000);
  Consumer consumer = consume(at_most(1000, true));
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kTooLarge, "max-frame-size"));
  EXPECT_EQ(producer.num_consumers(), 0u);
}

TEST_F(BadInput, SlotsBeyondTheConsumersMaxFrameSizeInMidStream) {
  for (const bool reconnect : {true, false}) {
    ProducerSettings patient;
    patient.full_timeout = kForever;
    patient.stall_timeout = kForever;
    Producer producer = produce(patient);
    Consumer other = join();
    Consumer consumer = join(at_most(5000, reconnect));
    publish_frames(producer, 0, 2, 100);
    take_frames(consumer, 0, 1);
    publish_frames(producer, 2, 1, 50'000);
    take_frames(consumer, 1, 1);  // what it can take, it still gets
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kTooLarge, "max-frame-size")) << "reconnect " << reconnect;
    // It is out, so it holds nobody up.
    EXPECT_TRUE(eventually([&] { return producer.num_consumers() == 1; }));
    take_frames(other, 0, 3);
    for (std::uint64_t frame = 3; frame < 50; ++frame) {
      publish_frames(producer, frame, 1, 50'000);
      take_frames(other, frame, 1);
    }
  }
}

TEST_F(BadInput, TheRoomOfSlotsForLargerFramesIsNoFrameSize) {
  Producer producer = produce();
  Consumer consumer = join(at_most(5000, false));
  publish_frames(producer, 0, 1, 100);
  publish_frames(producer, 1, 1, 5000);  // grown: the slots have room for 10,000 bytes
  take_frames(consumer, 0, 2);
}

// --- memory that can't be had; limits are a process's, so in one of its own

void limit(int resource, rlim_t bytes) {
  const rlimit wanted{bytes, bytes};
  setrlimit(resource, &wanted);
}

rlim_t address_space() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

template <class T>
std::string told(const Result<T>& result) {
  if (result) return "no error";
  return std::string(to_string(result.error().code)) + ": " + result.error().text;
}

const RoleOf kSmallFiles("small-files", [](Channel& parent, const Arguments&) {
  Producer producer = produce({.lane = "first"});
  limit(RLIMIT_FSIZE, 1 << 20);
  parent.send(told(producer.loan(1 << 20)));
  parent.send(told(publish(producer, 0, 100)));
  limit(RLIMIT_FSIZE, 1000);
  ProducerSettings settings;
  settings.lane = "second";
  parent.send(told(Producer::open(settings)));
  return 0;
});

TEST_F(BadInput, MemoryBeyondTheLimitOfFileSizes) {
  Child child("small-files");
  EXPECT_NE(child.receive().find("no-memory: cannot create"), std::string::npos);
  EXPECT_EQ(child.receive(), "no error") << "smaller frames still fit";
  EXPECT_NE(child.receive().find("RLIMIT_FSIZE"), std::string::npos);
  EXPECT_EQ(child.wait(), 0) << "no SIGXFSZ";
}

const RoleOf kNoSpace("no-space", [](Channel& parent, const Arguments&) {
  Producer producer = produce();
  publish_frames(producer, 0, 3, 1000);
  limit(RLIMIT_AS, address_space() + (100u << 20));
  parent.send(told(producer.loan(100u << 20)));
  parent.send(told(producer.loan(1000)));
  return 0;
});

TEST_F(BadInput, MemoryBeyondTheAddressSpaceOfTheProducer) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space of their own";
  Child child("no-space");
  const std::string text = child.receive();
  EXPECT_NE(text.find("no-memory: "), std::string::npos) << text;
  EXPECT_NE(text.find("RLIMIT_AS"), std::string::npos) << text;
  EXPECT_EQ(child.receive(), "no error");
  EXPECT_EQ(child.wait(), 0);
}

const RoleOf kNoSpaceToTake("no-space-to-take", [](Channel& parent, const Arguments& arguments) {
  Consumer consumer = consume();
  if (!consumer.connect(kPatience)) return 1;
  limit(RLIMIT_AS, address_space() + (static_cast<rlim_t>(std::stoul(arguments.at(0))) << 20));
  parent.send("connected");
  for (int i = 0; i < 3; ++i) parent.send(told(consumer.take(kPatience)));
  return 0;
});

TEST_F(BadInput, MemoryBeyondTheAddressSpaceOfTheConsumer) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space of their own";
  ProducerSettings settings;
  settings.full_timeout = kForever;
  settings.stall_timeout = kForever;
  Producer producer = produce(settings);
  Consumer other = join();
  Child child("no-space-to-take", {"200"});
  ASSERT_EQ(child.receive(), "connected");
  ASSERT_TRUE(ok(publish(producer, 0, 10u << 20)));  // some two hundred slots of that
  for (int i = 0; i < 3; ++i) {
    const std::string text = child.receive();
    EXPECT_NE(text.find("no-memory: "), std::string::npos) << text;
  }
  EXPECT_EQ(child.wait(), 0);
  take_frames(other, 0, 1);
  publish_frames(producer, 1, 8, 1000);
  take_frames(other, 1, 8);
}

const RoleOf kFewFiles("few-files", [](Channel& parent, const Arguments&) {
  Producer first = produce({.lane = "first"});
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  limit(RLIMIT_NOFILE, static_cast<rlim_t>(next) + 2);
  ProducerSettings settings;
  settings.lane = "second";
  parent.send(told(Producer::open(settings)));
  Consumer consumer = consume({.lane = "first", .connect_timeout = 100ms});
  parent.send(told(consumer.connect(kPatience)));
  publish_frames(first, 0, 20, 20);
  return 0;
});

TEST_F(BadInput, TooManyOpenFiles) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer of vtables needs a pipe to look at one, and else calls it broken";
  Child child("few-files");
  std::string text = child.receive();
  EXPECT_NE(text.find("oo many open files"), std::string::npos) << text;
  text = child.receive();
  EXPECT_NE(text.find("oo many open files"), std::string::npos) << text;
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace framelane::lane_test
