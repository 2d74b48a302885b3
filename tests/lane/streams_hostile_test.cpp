// SPDX-License-Identifier: MIT
// Peers on byte streams that close in the middle, lie, flood or say nothing: they lose their own connection, with a
// clear error, and nobody else loses anything.
#include <cstring>
#include <random>

#include <sys/socket.h>

#include "streams.hpp"

namespace framelane::lane_test {
namespace {

template <class... Messages>
Bytes said(const Messages&... messages) {
  Bytes bytes;
  const auto add = [&bytes](const wire::Message& message) {
    const auto more = wire::encode(message, 0);
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  (add(messages), ...);
  return bytes;
}

/// A FRAME with its payload.
Bytes frame_said(std::uint64_t index, std::size_t size, std::size_t side = 0) {
  wire::FrameMessage message;
  message.index = index;
  message.side_size = static_cast<std::uint32_t>(side);
  message.payload_size = size;
  Bytes bytes = said(message);
  const Bytes beside = payload(side, index + 1);
  const Bytes frame = payload(size, index);
  bytes.insert(bytes.end(), beside.begin(), beside.end());
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

Bytes operator+(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Overwrites a number of `bytes` at `offset`.
template <class T>
void put(Bytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}
constexpr std::size_t kSizeOffset = 16;  // of the payload's size in a message's header

// --- consumers that break the protocol

class HostileStreamConsumer : public StreamsTest {
 protected:
  void SetUp() override {
    ProducerSettings settings;
    settings.full_timeout = 10s;
    settings.handshake_timeout = 1s;
    producer_.emplace(open_producer(settings));
    honest_.emplace(join(producer_->descriptor()));
    publish_honestly(3);
    before_ = resources();
  }

  void publish_honestly(int count) {
    for (int i = 0; i < count; ++i, ++next_) {
      publish_frames(*producer_, next_, 1);
      take_frames(*honest_, next_, 1);
    }
  }

  void expect_unharmed() {
    publish_honestly(5);
    EXPECT_EQ(honest_->stats().skipped, 0u);
    EXPECT_TRUE(eventually([this] { return producer_->num_consumers() == 1; }));
    // The ring keeps the page of one that left during a publish until the next one comes or goes.
    join(producer_->descriptor()).close();
    EXPECT_TRUE(eventually([this] { return producer_->num_consumers() == 1; }));
    EXPECT_TRUE(nothing_is_left(before_));
  }

  [[nodiscard]] base::UniqueFd connect() const { return connect_raw(producer_->descriptor()); }
  /// One that was welcomed.
  [[nodiscard]] base::UniqueFd joined() const {
    base::UniqueFd fd = connect();
    EXPECT_TRUE(send_raw(fd.get(), stream_hello()));
    const auto answer = receive_message(fd.get());
    EXPECT_TRUE(answer && std::holds_alternative<wire::Welcome>(*answer));
    return fd;
  }
  /// Sends it; what is answered must be a REJECT with these words.
  void expect_rejected(std::span<const std::byte> bytes, const std::string& words) const {
    const base::UniqueFd fd = connect();
    ASSERT_TRUE(send_raw(fd.get(), bytes));
    const auto answer = receive_message(fd.get());
    const auto* const reject = answer ? std::get_if<wire::Reject>(&*answer) : nullptr;
    ASSERT_NE(reject, nullptr);
    EXPECT_NE(reject->sentence.find(words), std::string::npos) << reject->sentence;
    EXPECT_TRUE(is_cut_off(fd.get()));
  }

  std::optional<Producer> producer_;
  std::optional<Consumer> honest_;
  Resources before_;
  std::uint64_t next_ = 0;
};

TEST_P(HostileStreamConsumer, MayCloseAfterEveryPrefixOfItsHello) {
  const Bytes hello = said(stream_hello());
  for (std::size_t size = 0; size <= hello.size(); ++size) {
    const base::UniqueFd fd = connect();
    ASSERT_TRUE(send_raw(fd.get(), std::span(hello).first(size)));
  }
  expect_unharmed();
}

TEST_P(HostileStreamConsumer, MayShutItsHalfAfterEveryPrefixOfItsHello) {
  const Bytes hello = said(stream_hello());
  for (std::size_t size = 0; size < hello.size(); ++size) {
    const base::UniqueFd fd = connect();
    ASSERT_TRUE(send_raw(fd.get(), std::span(hello).first(size)));
    ASSERT_EQ(shutdown(fd.get(), SHUT_WR), 0);
    EXPECT_TRUE(is_cut_off(fd.get()));
  }
  expect_unharmed();
}

TEST_P(HostileStreamConsumer, MaySayAnythingOfUpTo64Bytes) {
  std::mt19937 random(GetParam() == Transport::kTcp ? 1 : 2);
  for (std::size_t size = 0; size <= 64; ++size) {
    for (int kind = 0; kind < 3; ++kind) {
      Bytes bytes(size);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      const Bytes hello = said(stream_hello());
      // A header that is right but for its length, or its type, too.
      const std::size_t good = kind == 0 ? 0 : std::min<std::size_t>(size, kind == 1 ? kSizeOffset : 4);
      std::copy_n(hello.begin(), good, bytes.begin());
      if (kind == 1 && size >= wire::kHeaderBytes) {
        put(bytes, kSizeOffset, static_cast<std::uint32_t>(random() % 200));
        put(bytes, kSizeOffset + 4, std::uint32_t{0});
      }
      const base::UniqueFd fd = connect();
      // What is rejected is cut off, perhaps before all of it was sent.
      static_cast<void>(send_raw(fd.get(), bytes));
      shutdown(fd.get(), SHUT_WR);
      EXPECT_TRUE(is_cut_off(fd.get()));
    }
  }
  expect_unharmed();
}

TEST_P(HostileStreamConsumer, IsToldWhatIsWrongWithItsHello) {
  Bytes magic = said(stream_hello());
  put(magic, 0, std::uint32_t{0x12345678});
  expect_rejected(magic, "magic");
  for (const std::uint32_t size : {0xffffffffu, 1u << 30, 64u << 20}) {
    Bytes large = said(stream_hello());
    put(large, kSizeOffset, size);
    expect_rejected(large, "payload_size");
  }
  Bytes shorter = said(stream_hello());
  put(shorter, kSizeOffset, std::uint32_t{5});
  expect_rejected(shorter, "HELLO");
  wire::Hello hello = stream_hello();
  hello.version_min = hello.version_max = 99;
  expect_rejected(said(hello), "version");
  hello = stream_hello();
  hello.byte_order =
      wire::kNativeByteOrder == wire::ByteOrder::kLittle ? wire::ByteOrder::kBig : wire::ByteOrder::kLittle;
  expect_rejected(said(hello), "byte order");
  hello = stream_hello();
  hello.role = wire::Role::kObserver;
  expect_rejected(said(hello), "observers");
  expect_rejected(said(wire::Leave{}), "must begin with HELLO, not LEAVE");
  expect_rejected(said(good_welcome()), "must begin with HELLO, not WELCOME");
  wire::FrameMessage frame;
  frame.payload_size = 1;
  expect_rejected(said(frame) + Bytes(1), "consumers don't send");
  expect_rejected(said(stream_hello("other")), "the lane \"other\" isn't here; this is \"lane\"");
  expect_unharmed();
}

TEST_P(HostileStreamConsumer, GetsNoMemoryForAHelloThatIsTooLong) {
  Bytes hello = said(stream_hello());
  put(hello, kSizeOffset, std::uint32_t{(64u << 20) - 24});  // a number that some messages may have
  expect_rejected(hello, "payload_size");
  expect_unharmed();
}

/// Sends without an end until the peer has cut it off, or `stopped`.
void pour(int fd, const std::atomic<bool>& stopped) {
  const Bytes bytes = payload(std::size_t{64} << 10, 1);
  while (!stopped && send_raw(fd, bytes)) {
  }
}

TEST_P(HostileStreamConsumer, ThatPoursOnAfterItsRejectionIsCutOff) {
  const base::UniqueFd fd = connect();
  std::atomic<bool> stopped{false};
  // Two of them: there is always something to read.
  std::thread pouring([&] { pour(fd.get(), stopped); });
  std::thread too([&] { pour(fd.get(), stopped); });
  std::atomic<bool> closed{false};
  std::thread closing([&] {
    producer_.reset();
    closed = true;
  });
  EXPECT_TRUE(eventually([&] { return closed.load(); })) << "a rejected peer holds up the producer";
  stopped = true;
  shutdown(fd.get(), SHUT_RDWR);
  pouring.join();
  too.join();
  closing.join();
}

TEST_P(HostileStreamConsumer, ThatWasWelcomedIsCutOffForWhatItMustNotSend) {
  wire::FrameMessage frame;
  frame.payload_size = 1;
  Bytes lying = said(wire::RequestMessage{});
  put(lying, kSizeOffset, std::uint32_t{0xffffffff});
  Bytes longer = said(wire::RequestMessage{});
  put(longer, kSizeOffset, std::uint32_t{(64u << 20) - 24});
  for (const Bytes& bytes : {said(stream_hello()), said(good_welcome()), said(wire::FlushStart{1}),
                             said(wire::FlushStop{0, 1}), said(wire::Demoted{true}), said(wire::StatsRequest{}),
                             said(wire::EventMessage{event(format::EventType::kEndOfStream), 0}), said(wire::Reject{}),
                             said(frame) + Bytes(1), lying, longer, payload(100, 3)}) {
    const base::UniqueFd fd = joined();
    ASSERT_TRUE(send_raw(fd.get(), bytes));
    EXPECT_TRUE(is_cut_off(fd.get()));
  }
  expect_unharmed();
}

TEST_P(HostileStreamConsumer, ThatFloodsIsCutOff) {
  base::UniqueFd fd = joined();
  const Bytes request = said(wire::RequestMessage{});
  Bytes many;
  for (int i = 0; i < 100; ++i) many = many + request;
  for (int i = 0; i < 10'000 && send_raw(fd.get(), many); ++i) {
  }
  EXPECT_TRUE(is_cut_off(fd.get()));
  fd.reset();
  expect_unharmed();
}

TEST_P(HostileStreamConsumer, MayCloseAtAnyTimeAfterItsWelcome) {
  for (int i = 0; i < 20; ++i) {
    const base::UniqueFd fd = joined();
    publish_honestly(i % 3);
  }
  expect_unharmed();
}

TEST_P(HostileStreamConsumer, WhoseSignalsWaitForNoFramesIsDropped) {
  for (const std::uint64_t token : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    wire::Hello hello = stream_hello();
    hello.role = wire::Role::kSignals;
    hello.token = token;
    const base::UniqueFd fd = connect();
    ASSERT_TRUE(send_raw(fd.get(), hello));
    EXPECT_TRUE(is_cut_off(fd.get()));
  }
  expect_unharmed();
}

TEST_P(HostileStreamConsumer, ThatIsSilentIsDroppedWhileOthersConnect) {
  base::UniqueFd silent = connect();
  base::UniqueFd halfway = connect();
  const Bytes hello = said(stream_hello());
  ASSERT_TRUE(send_raw(halfway.get(), std::span(hello).first(30)));
  for (int i = 0; i < 100; ++i) {
    Consumer consumer = join(producer_->descriptor());
    EXPECT_TRUE(consumer.stats().connected);
  }
  EXPECT_TRUE(is_cut_off(silent.get()));
  EXPECT_TRUE(is_cut_off(halfway.get()));
  silent.reset();
  halfway.reset();
  expect_unharmed();
}

TEST_P(HostileStreamConsumer, InAnyNumberThatAreSilentKeepNobodyOut) {
  ProducerSettings settings;
  settings.handshake_timeout = kForever;  // else they would be gone soon
  settings.lane =
      GetParam() == Transport::kTcp ? "lane.tcp://127.0.0.1:0/other" : "lane.uds://" + directory_.path() + "/other";
  auto producer = Producer::open(settings);
  ASSERT_TRUE(ok(producer));
  std::vector<base::UniqueFd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(connect_raw(producer->descriptor()));
  std::optional<Consumer> consumer(join(producer->descriptor()));
  for (int i = 0; i < 100; ++i) silent.push_back(connect_raw(producer->descriptor()));
  EXPECT_TRUE(is_cut_off(silent.front().get())) << "the one that was silent for longest made room";
  publish_frames(*producer, 0, 3);
  take_frames(*consumer, 0, 3);
  // 64 of them, and the consumer's relay.
  EXPECT_TRUE(eventually([this] { return resources().threads <= before_.threads + 65; })) << "who made room is gone";
  consumer.reset();
  producer = tl::unexpected(Error{});
  silent.clear();
  expect_unharmed();
}

INSTANTIATE_TEST_SUITE_P(Transports, HostileStreamConsumer, ::testing::Values(Transport::kUds, Transport::kTcp),
                         transport_name);

// --- producers that break the protocol

class HostileStreamProducer : public StreamsTest {
 protected:
  void SetUp() override {
    // The process's own threads and descriptors are there from the first connection on.
    Producer producer = open_producer();
    join(producer.descriptor()).close();
    producer.close();
    before_ = resources();
  }
  void TearDown() override { EXPECT_TRUE(nothing_is_left(before_)); }

  [[nodiscard]] ConsumerSettings once() const {
    ConsumerSettings settings;
    settings.transport = GetParam();
    settings.reconnect = false;
    settings.connect_timeout = 60s;
    return settings;
  }

  /// What the taking consumer is told after all frames that came.
  [[nodiscard]] Error error_after(const Bytes& bytes, FakeProducer::Then then = FakeProducer::Then::kStays) const {
    const FakeProducer producer(GetParam(), directory_.path(), bytes, then);
    Consumer consumer = open_consumer(producer.descriptor(), once());
    for (;;) {
      auto item = consumer.take_item(kPatience);
      if (!item) return item.error();
    }
  }

  void expect_error(const Bytes& bytes, Code code, const std::string& words) const {
    const Error error = error_after(bytes);
    EXPECT_EQ(error.code, code) << error.text;
    EXPECT_NE(error.text.find(words), std::string::npos) << error.text;
  }
  /// The same of a stream that began well.
  void expect_error_after_welcome(const Bytes& bytes, Code code, const std::string& words) const {
    expect_error(said(good_welcome()) + bytes, code, words);
  }

  Resources before_;
};

TEST_P(HostileStreamProducer, MayCloseAfterEveryPrefixOfItsWelcome) {
  const Bytes welcome = said(good_welcome());
  for (std::size_t size = 0; size < welcome.size(); ++size) {
    const FakeProducer producer(GetParam(), directory_.path(), Bytes(welcome.begin(), welcome.begin() + size),
                                FakeProducer::Then::kCloses);
    ConsumerSettings settings = once();
    settings.connect_timeout = 1ms;  // another try could help
    Consumer consumer = open_consumer(producer.descriptor(), settings);
    const auto taken = consumer.take(kPatience);
    ASSERT_FALSE(taken.has_value());
    EXPECT_EQ(taken.error().code, Code::kNotFound) << taken.error().text;
    EXPECT_FALSE(taken.error().text.empty());
  }
}

TEST_P(HostileStreamProducer, MayCloseAfterEveryPrefixOfAFrameOrEvent) {
  const Bytes begin = said(good_welcome()) + frame_said(0, 40);
  for (const Bytes& last : {frame_said(1, 40, 20), said(wire::EventMessage{event(format::EventType::kCustom, "hi"), 1}),
                            said(wire::FlushStart{1}, wire::FlushStop{1, 1})}) {
    for (std::size_t size = 0; size < last.size(); ++size) {
      const FakeProducer producer(GetParam(), directory_.path(), begin + Bytes(last.begin(), last.begin() + size),
                                  FakeProducer::Then::kCloses);
      Consumer consumer = open_consumer(producer.descriptor(), once());
      take_frames(consumer, 0, 1);
      const auto next = consumer.take(kPatience);
      EXPECT_TRUE(fails_with(next, Code::kPeerLost, "left without an end of stream")) << "after " << size << " bytes";
      EXPECT_EQ(consumer.stats().taken, 1u);
      EXPECT_EQ(consumer.stats().skipped, 0u);
    }
  }
}

TEST_P(HostileStreamProducer, MaySayAnythingOfUpTo64Bytes) {
  std::mt19937 random(GetParam() == Transport::kTcp ? 1 : 2);
  for (std::size_t size = 1; size <= 64; ++size) {
    Bytes bytes(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    const Bytes welcome = said(good_welcome());
    if (size % 2 == 0) std::copy_n(welcome.begin(), std::min<std::size_t>(size, kSizeOffset), bytes.begin());
    const FakeProducer producer(GetParam(), directory_.path(), bytes, FakeProducer::Then::kCloses);
    ConsumerSettings settings = once();
    settings.connect_timeout = 1ms;
    Consumer consumer = open_consumer(producer.descriptor(), settings);
    const auto taken = consumer.take(kPatience);
    ASSERT_FALSE(taken.has_value());
    EXPECT_TRUE(taken.error().code == Code::kNotFound || taken.error().code == Code::kProtocol) << taken.error().text;
  }
}

TEST_P(HostileStreamProducer, WithAWelcomeThatCannotBeIsNamed) {
  expect_error(said(wire::Leave{}), Code::kProtocol, "first message isn't a WELCOME");
  expect_error(said(stream_hello()), Code::kProtocol, "first message isn't a WELCOME");
  expect_error(frame_said(0, 10), Code::kProtocol, "before the connection was made");
  wire::Welcome welcome = good_welcome();
  welcome.max_held = 0;
  expect_error(said(welcome), Code::kProtocol, "max_held");
  welcome.max_held = 5;  // 4 were asked for
  expect_error(said(welcome), Code::kProtocol, "max_held");
  welcome = good_welcome();
  welcome.segments.emplace_back();
  expect_error(said(welcome), Code::kProtocol, "segments");
  welcome = good_welcome();
  welcome.start = wire::kMaxSeq + 1;
  expect_error(said(welcome), Code::kProtocol, "start");
  welcome = good_welcome();
  welcome.instance_id = {9};  // that of the signals is another one
  const FakeProducer producer(GetParam(), directory_.path(), said(welcome));
  ConsumerSettings settings = once();
  settings.connect_timeout = 50ms;  // it could have been started anew in between
  Consumer consumer = open_consumer(producer.descriptor(), settings);
  EXPECT_TRUE(fails_with(consumer.take(kPatience), Code::kNotFound));
  Bytes large = said(good_welcome());
  put(large, kSizeOffset, std::uint32_t{0xffffffff});
  expect_error(large, Code::kProtocol, "payload_size");
}

TEST_P(HostileStreamProducer, WithAServedPlaceThatCannotBeIsTakenAsItIs) {
  for (const char* const served : {"", "nonsense://", "lane.shm:///nowhere/at-all/lane", "lane.tcp://[::1"}) {
    wire::Welcome welcome = good_welcome();
    welcome.served = served;
    const FakeProducer producer(GetParam(), directory_.path(), said(welcome) + frame_said(0, 10));
    ConsumerSettings settings;
    Consumer consumer = open_consumer(producer.descriptor(), settings);
    take_frames(consumer, 0, 1);
    EXPECT_EQ(consumer.transport(), to_string(GetParam()));
  }
}

TEST_P(HostileStreamProducer, WithFramesThatLieIsNamed) {
  expect_error_after_welcome(frame_said(5, 10) + frame_said(5, 10), Code::kProtocol, "index 5 of a frame");
  expect_error_after_welcome(frame_said(5, 10) + frame_said(4, 10), Code::kProtocol, "index 4 of a frame");
  expect_error_after_welcome(frame_said(wire::kMaxSeq + 1, 10), Code::kProtocol, "index");
  expect_error_after_welcome(frame_said(~std::uint64_t{0}, 10), Code::kProtocol, "index");
  wire::FrameMessage frame;
  frame.payload_size = std::uint64_t{300} << 20;
  expect_error_after_welcome(said(frame), Code::kTooLarge, "max-frame-size");
  frame.payload_size = wire::kMaxFrameBytes + 1;
  expect_error_after_welcome(said(frame), Code::kProtocol, "payload_size");
  frame.payload_size = ~std::uint64_t{0};
  expect_error_after_welcome(said(frame), Code::kProtocol, "payload_size");
  frame.payload_size = 1;
  frame.side_size = wire::kMaxSideBytes + 1;
  expect_error_after_welcome(said(frame), Code::kProtocol, "side_size");
  frame.side_size = ~std::uint32_t{0};
  expect_error_after_welcome(said(frame), Code::kProtocol, "side_size");
}

TEST_P(HostileStreamProducer, WithAFrameThatIsShorterThanItSaysIsWaitedForAndThenLost) {
  wire::FrameMessage frame;
  frame.payload_size = 1000;
  const Error error = error_after(said(good_welcome()) + said(frame) + Bytes(999), FakeProducer::Then::kCloses);
  EXPECT_EQ(error.code, Code::kPeerLost) << error.text;
  const FakeProducer producer(GetParam(), directory_.path(), said(good_welcome()) + said(frame) + Bytes(999));
  Consumer consumer = open_consumer(producer.descriptor(), once());
  EXPECT_TRUE(fails_with(consumer.take(100ms), Code::kTimeout));
  EXPECT_TRUE(fails_with(consumer.take(100ms), Code::kTimeout));
}

TEST_P(HostileStreamProducer, WithTextsOf4GiBIsNamed) {
  Bytes lying = said(wire::EventMessage{event(format::EventType::kCustom, "four"), 0});
  const auto text = std::search(lying.begin(), lying.end(), std::begin("four"), std::end("four") - 1,
                                [](std::byte a, char b) { return static_cast<char>(a) == b; });
  ASSERT_NE(text, lying.end());
  put(lying, static_cast<std::size_t>(text - lying.begin()) - 4, ~std::uint32_t{0});
  expect_error_after_welcome(lying, Code::kProtocol, "text");
  put(lying, kSizeOffset, ~std::uint32_t{0});
  expect_error_after_welcome(lying, Code::kProtocol, "payload_size");
}

TEST_P(HostileStreamProducer, WithEventsOutOfPlaceIsNamed) {
  using format::EventType;
  expect_error_after_welcome(frame_said(5, 10) + said(wire::EventMessage{event(EventType::kEndOfStream), 4}),
                             Code::kProtocol, "index 4 of a frame or event");
  expect_error_after_welcome(said(wire::EventMessage{event(EventType::kEndOfStream), wire::kMaxSeq + 1}),
                             Code::kProtocol, "seq");
}

TEST_P(HostileStreamProducer, WithFlushesThatCannotBeIsNamed) {
  expect_error_after_welcome(said(wire::FlushStop{0, 0}), Code::kProtocol, "FLUSH_STOP");
  expect_error_after_welcome(said(wire::FlushStart{1}, wire::FlushStop{0, 1}, wire::FlushStop{0, 1}), Code::kProtocol,
                             "FLUSH_STOP");
  expect_error_after_welcome(said(wire::FlushStart{7}, wire::FlushStop{0, 7}, wire::FlushStop{0, 6}), Code::kProtocol,
                             "FLUSH_STOP");
  expect_error_after_welcome(frame_said(9, 10) + said(wire::FlushStart{1}, wire::FlushStop{3, 1}), Code::kProtocol,
                             "index 3");
}

TEST_P(HostileStreamProducer, WithMessagesThatAProducerDoesNotSendIsNamed) {
  wire::AddSegment segment;
  for (const Bytes& bytes :
       {said(stream_hello()), said(good_welcome()), said(wire::Reject{}), said(segment), said(wire::RetireSegment{1}),
        said(wire::StatsRequest{}), said(wire::Stats{}), said(wire::RequestMessage{})})
    expect_error_after_welcome(bytes, Code::kProtocol, "type of a message on the stream");
  expect_error_after_welcome(payload(100, 1), Code::kProtocol, "magic");
  Bytes unknown = said(wire::Leave{});
  put(unknown, 4, std::uint16_t{999});
  expect_error_after_welcome(unknown, Code::kProtocol, "type: 999");
  Bytes flags = said(wire::Leave{});
  put(flags, 6, wire::kFlagPayloadInMemfd);
  expect_error_after_welcome(flags, Code::kProtocol, "flags");
}

TEST_P(HostileStreamProducer, ThatSendsFasterThanAnybodyReadsKeepsNobodyFromTaking) {
  for (const Mode mode : {Mode::kEvery, Mode::kLatest}) {
    const FakeProducer producer(GetParam(), directory_.path(), said(good_welcome()), FakeProducer::Then::kPours);
    ConsumerSettings settings = once();
    settings.mode = mode;
    Consumer consumer = open_consumer(producer.descriptor(), settings);
    std::uint64_t next = 0;
    for (int i = 0; i < 10; ++i) {
      const auto frame = consumer.take(kPatience);
      ASSERT_TRUE(ok(frame));
      EXPECT_EQ(frame->seq(), next + frame->skipped());
      next = frame->seq() + 1;
    }
  }
}

TEST_P(HostileStreamProducer, ThatSendsFasterThanAnybodyReadsKeepsNoFlushFromBeingInterrupted) {
  const FakeProducer producer(GetParam(), directory_.path(), said(good_welcome(), wire::FlushStart{1}),
                              FakeProducer::Then::kPours);
  Consumer consumer = open_consumer(producer.descriptor(), once());
  std::thread interrupting([&] {
    EXPECT_TRUE(eventually([&] { return consumer.flushing(); }));
    std::this_thread::sleep_for(50ms);
    consumer.interrupt();
  });
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kInterrupted));
  interrupting.join();
}

TEST_P(HostileStreamProducer, ThatNeverAnswersIsReported) {
  const FakeProducer producer(GetParam(), directory_.path(), Bytes{});
  ConsumerSettings settings = once();
  settings.connect_timeout = 100ms;
  Consumer consumer = open_consumer(producer.descriptor(), settings);
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kNotFound, "doesn't answer"));
}

INSTANTIATE_TEST_SUITE_P(Transports, HostileStreamProducer, ::testing::Values(Transport::kUds, Transport::kTcp),
                         transport_name);

}  // namespace
}  // namespace framelane::lane_test
