// SPDX-License-Identifier: MIT
// Peers that break the protocol lose their own connection, with an error that names the field, and hurt nobody else.
#include <atomic>
#include <functional>
#include <mutex>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "raw_peer.hpp"
#include "transport/lane_files.hpp"

namespace framelane::lane_test {
namespace {

// --- consumers

class HostileConsumer : public LaneTest {
 protected:
  HostileConsumer() {
    ProducerSettings settings;
    settings.full_timeout = 5s;
    producer_.emplace(produce(settings));
    producer_->on_consumer([this](const ConsumerInfo&, bool joined, std::string_view reason) {
      const std::lock_guard lock(mutex_);
      if (!joined) reason_ = reason;
    });
    honest_.emplace(join());
    publish_honestly(3);
    raw_.emplace(directory_.path() + "/lane");
    if (!eventually([this] { return producer_->num_consumers() == 2; })) throw std::runtime_error("it didn't join");
  }

  void publish_honestly(int count) {
    for (int i = 0; i < count; ++i, ++next_) {
      publish_frames(*producer_, next_, 1);
      take_frames(*honest_, next_, 1);
    }
  }

  /// The hostile one is thrown out for `field`; the honest one loses nothing.
  void expect_evicted(const std::string& field) {
    EXPECT_TRUE(eventually([this] { return producer_->num_consumers() == 1; }));
    EXPECT_TRUE(raw_->is_cut_off());
    const auto reason = [this] {  // told after it was taken out
      const std::lock_guard lock(mutex_);
      return reason_;
    };
    EXPECT_TRUE(eventually([&] { return !reason().empty(); }));
    EXPECT_NE(reason().find(field), std::string::npos) << '"' << reason() << '"';
    EXPECT_EQ(producer_->stats().evictions, 1u);
    publish_honestly(50);
    EXPECT_EQ(honest_->stats().skipped, 0u);
    EXPECT_EQ(producer_->stats().dropped_full, 0u);
  }

  std::mutex mutex_;
  std::string reason_;
  std::optional<Producer> producer_;
  std::optional<Consumer> honest_;
  std::optional<RawConsumer> raw_;
  std::uint64_t next_ = 0;
};

TEST_F(HostileConsumer, ACursorBeyondTheHeadIsEvicted) {
  raw_->page().cursor.store(~std::uint64_t{0});
  publish_honestly(30);
  expect_evicted("cursor");
}

TEST_F(HostileConsumer, ACursorThatGoesBackIsEvicted) {
  raw_->page().cursor.store(raw_->welcome.start - 1);
  publish_honestly(30);
  expect_evicted("cursor");
}

TEST_F(HostileConsumer, ACursorJustBeyondTheHeadIsEvicted) {
  raw_->page().cursor.store(raw_->welcome.start + 1000);
  publish_honestly(30);
  expect_evicted("cursor");
}

TEST_F(HostileConsumer, TooManyHoldsAreEvicted) {
  for (auto& word : raw_->page().holds) word.store(~0u);
  std::uint64_t cursor = raw_->welcome.start;
  for (int i = 0; i < 60 && producer_->num_consumers() == 2; ++i) {
    publish_honestly(1);
    raw_->page().cursor.store(++cursor);
  }
  expect_evicted("holds");
}

TEST_F(HostileConsumer, AsManyHoldsAsGrantedCostOnlyItsReserve) {
  raw_->page().holds[0].store(0b1111);  // slots that it never took
  std::uint64_t cursor = raw_->welcome.start;
  for (int i = 0; i < 500; ++i) {
    publish_honestly(1);
    raw_->page().cursor.store(++cursor);
  }
  EXPECT_EQ(producer_->num_consumers(), 2u);
  EXPECT_EQ(producer_->stats().dropped_full, 0u);
}

TEST_F(HostileConsumer, TicketsAndCountersOfAnyKindAreHarmless) {
  std::uint64_t cursor = raw_->welcome.start;
  for (std::uint32_t i = 0; i < 200; ++i) {
    for (auto& waiting : raw_->page().waiting) waiting.ticket.store(i * 0x9e3779b9u + 1);
    raw_->page().wake_word.store(i * 77);
    raw_->page().producer_waiting.store(i * 13);
    raw_->page().taken.store(~std::uint64_t{0} - i);
    raw_->page().skipped.store(~std::uint64_t{0});
    for (auto& cell : raw_->page().latency.counts) cell.store(~std::uint64_t{0} / (i + 1));
    raw_->page().latency.max_ns.store(i);
    raw_->page().latency.min_ns_plus_1.store(~std::uint64_t{0});
    publish_honestly(1);
    raw_->page().cursor.store(++cursor);
    static_cast<void>(producer_->stats());
  }
  EXPECT_EQ(producer_->num_consumers(), 2u);
  EXPECT_EQ(honest_->stats().skipped, 0u);
}

TEST_F(HostileConsumer, AGarbageMessageIsEvicted) {
  const Bytes garbage = payload(100, 1);
  ASSERT_EQ(::send(raw_->socket().fd(), garbage.data(), garbage.size(), 0), 100);
  expect_evicted("magic");
}

TEST_F(HostileConsumer, AShortMessageIsEvicted) {
  ASSERT_EQ(::send(raw_->socket().fd(), "abc", 3, 0), 3);
  expect_evicted("message header");
}

TEST_F(HostileConsumer, ADescriptorIsEvicted) {
  const base::UniqueFd file(open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::vector<int> fds{file.get()};
  const auto sent = raw_->socket().send(wire::encode(wire::Leave{}, 0), fds);
  if (!sent) GTEST_SKIP() << "this kernel refuses descriptors for us";
  expect_evicted("file descriptors");
}

TEST_F(HostileConsumer, ABrokenRequestIsEvicted) {
  auto bytes = wire::encode(wire::RequestMessage{}, 0);
  bytes[wire::kHeaderBytes + 6] = std::byte{7};  // `headers`, after type and number
  EXPECT_TRUE(ok(raw_->socket().send(bytes)));
  expect_evicted("REQUEST message: field headers");
}

TEST_F(HostileConsumer, ARequestThatClaimsMoreTextThanItHasIsEvicted) {
  auto bytes = wire::encode(wire::RequestMessage{}, 0);
  std::fill(bytes.end() - 4, bytes.end(), std::byte{0xff});  // the size of `text`
  EXPECT_TRUE(ok(raw_->socket().send(bytes)));
  expect_evicted("REQUEST message: field text");
}

TEST_F(HostileConsumer, AFloodOfGoodRequestsIsEvicted) {
  const auto bytes = wire::encode(wire::RequestMessage{}, 0);
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 1000; ++i) static_cast<void>(raw_->socket().send(bytes));
    return producer_->num_consumers() == 1;
  }));
  expect_evicted("floods");
  EXPECT_LE(producer_->take_requests().size(), 1u);
}

TEST_F(HostileConsumer, AFloodOfGoodbyesIsEvicted) {
  const auto bytes = wire::encode(wire::Leave{}, 0);
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 1000; ++i) static_cast<void>(raw_->socket().send(bytes));
    return producer_->num_consumers() == 1;
  }));
  expect_evicted("floods");
}

TEST_F(HostileConsumer, AProducersMessageIsEvicted) {
  ASSERT_TRUE(ok(raw_->socket().send(wire::encode(wire::RetireSegment{1}, 1))));
  expect_evicted("consumers don't send");
}

TEST_F(HostileConsumer, WhoReadsNoMessagesIsLetGo) {
  std::uint64_t cursor = raw_->welcome.start;
  for (int i = 0; i < 3000 && producer_->stats().evictions == 0; ++i) {
    ASSERT_TRUE(ok(producer_->send(event(format::EventType::kCustom, "event"))));
    raw_->page().cursor.store(++cursor);
    while (honest_->try_take().value().has_value()) {
    }
  }
  EXPECT_EQ(producer_->stats().evictions, 1u);
  EXPECT_TRUE(raw_->is_cut_off());
  const std::uint64_t waits = producer_->stats().full_waits;
  publish_honestly(100);
  EXPECT_EQ(producer_->stats().full_waits, waits) << "nobody waits for it";
  EXPECT_EQ(producer_->num_consumers(), 2u) << "what it holds is its own until it goes";
  raw_.reset();
  EXPECT_TRUE(eventually([this] { return producer_->num_consumers() == 1; }));
}

TEST_F(HostileConsumer, AHelloOfAnotherVersionIsRejectedWithASentence) {
  auto socket = transport::ControlSocket::connect(directory_.path() + "/lane");
  ASSERT_TRUE(ok(socket));
  wire::Hello hello = good_hello();
  hello.abi_version = 77;
  ASSERT_TRUE(ok(socket->send(wire::encode(hello, 0))));
  const auto answer = socket->receive_until(patience_ns());
  ASSERT_TRUE(ok(answer));
  const auto decoded = wire::decode(answer->bytes);
  ASSERT_TRUE(ok(decoded));
  ASSERT_TRUE(std::holds_alternative<wire::Reject>(decoded->message));
  EXPECT_NE(std::get<wire::Reject>(decoded->message).sentence.find("same release"), std::string::npos);
}

// --- producers

memory::SealedMemory sealed(std::size_t size, memory::Sharing sharing) {
  auto made = memory::create_sealed("fake", size, sharing);
  if (!made) throw std::runtime_error(made.error().text);
  return std::move(*made);
}

/// A producer's side by hand: everything right at first, so that a test can make one thing wrong.
struct Fake {
  static constexpr std::uint32_t kEntries = 256;
  static constexpr std::uint32_t kSlots = 8;

  Fake()
      : ring(sealed(ring::ring_bytes(kEntries), memory::Sharing::kReadOnly)),
        page(sealed(sizeof(ring::ConsumerPage), memory::Sharing::kReadWrite)),
        data(sealed(4096 * kSlots + 8192, memory::Sharing::kReadOnly)) {
    auto* const made = new (ring.mapping.data()) ring::RingHeader{};
    made->magic = ring::kRingMagic;
    made->abi_version = ring::kAbiVersion;
    made->byte_order = ring::kByteOrderMark;
    made->header_size = ring::kEntriesOffset;
    made->entry_size = sizeof(ring::Entry);
    made->entry_count = kEntries;
    made->page_size = sizeof(ring::ConsumerPage);
    made->oldest_live.store(kEntries);
    header = made;
    welcome.abi_version = ring::kAbiVersion;
    welcome.consumer_id = 1;
    welcome.start = kEntries;
    welcome.entry_count = kEntries;
    welcome.page_size = sizeof(ring::ConsumerPage);
    welcome.max_held = 4;
    welcome.segments.push_back({1, 0, kSlots, ring::kRecordStride, 4096, 4096, 8192, 4096 * kSlots + 8192});
    fds = {ring.fd.get(), page.fd.get(), data.fd.get()};
  }

  ring::Entry& entry(std::uint64_t seq) {
    auto* const entries = reinterpret_cast<ring::Entry*>(ring.mapping.data() + ring::kEntriesOffset);
    return entries[seq % kEntries];
  }
  void publish(std::uint64_t index, std::uint32_t size, std::uint16_t slot, std::uint16_t ctl = 0,
               std::uint16_t flags = 0) {
    const std::uint64_t seq = kEntries + index;
    entry(seq).size_slot.store(ring::pack_size_slot(size, slot, ctl));
    entry(seq).tag.store(ring::make_tag(seq, flags));
  }

  memory::SealedMemory ring, page, data;
  ring::RingHeader* header = nullptr;
  wire::Welcome welcome;
  std::vector<int> fds;
};

/// Serves one consumer with a Fake.
class FakeServer : public transport::HelloHandler {
 public:
  FakeServer(const std::string& directory, Fake& fake, std::function<void(transport::ControlSocket&)> then = {})
      : fake_(fake), then_(std::move(then)) {
    auto files = transport::LaneFiles::claim(directory, "lane");
    if (!files) throw std::runtime_error(files.error().text);
    auto server = transport::ControlServer::start(std::move(*files), *this);
    if (!server) throw std::runtime_error(server.error().text);
    server_ = std::move(*server);
  }
  void on_hello(transport::ControlSocket&& socket, const wire::Hello&, const transport::PeerCredentials&) override {
    socket_.emplace(std::move(socket));
    EXPECT_TRUE(ok(socket_->send(wire::encode(fake_.welcome, 0), fake_.fds)));
    if (then_) then_(*socket_);
  }

 private:
  Fake& fake_;
  std::function<void(transport::ControlSocket&)> then_;
  std::optional<transport::ControlSocket> socket_;
  std::unique_ptr<transport::ControlServer> server_;
};

class HostileProducer : public LaneTest {
 protected:
  /// The consumer names what is wrong, and goes on living.
  void expect_protocol_error(std::string_view words, std::function<void(transport::ControlSocket&)> then = {}) {
    const FakeServer server(directory_.path(), fake_, std::move(then));
    ConsumerSettings settings;
    settings.reconnect = false;
    Consumer consumer = consume(settings);
    const auto taken = consumer.take(kPatience);
    EXPECT_TRUE(fails_with(taken, Code::kProtocol, words));
    EXPECT_FALSE(consumer.stats().connected);
  }

  Fake fake_;
};

TEST_F(HostileProducer, TheFakeIsGoodAtFirst) {
  fake_.publish(0, 100, 3);
  fake_.publish(1, 7, 0, 0, ring::kTagInline);
  const FakeServer server(directory_.path(), fake_);
  Consumer consumer = join();
  const auto taken = consumer.take(kPatience);
  ASSERT_TRUE(ok(taken));
  EXPECT_EQ(taken->size(), 100u);
  EXPECT_EQ(taken->slot(), 3);
  const auto inlined = consumer.take(kPatience);
  ASSERT_TRUE(ok(inlined));
  EXPECT_EQ(inlined->size(), 7u);
}

TEST_F(HostileProducer, ARingOfTheWrongSizeIsNamed) {
  fake_.welcome.entry_count = 512;
  expect_protocol_error("its size is");
}

TEST_F(HostileProducer, AnUnsealedRingIsNamed) {
  const base::UniqueFd plain(memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(plain.get(), static_cast<off_t>(fake_.ring.mapping.size())), 0);
  fake_.fds[0] = plain.get();
  expect_protocol_error("F_SEAL");
}

TEST_F(HostileProducer, AFileInsteadOfMemoryIsNamed) {
  const base::UniqueFd file(open((directory_.path() + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  fake_.fds[2] = file.get();
  expect_protocol_error("seals");
}

TEST_F(HostileProducer, APageThatCannotBeWrittenIsNamed) {
  const memory::SealedMemory page = sealed(sizeof(ring::ConsumerPage), memory::Sharing::kReadOnly);
  fake_.fds[1] = page.fd.get();
  expect_protocol_error("ours to write");
}

TEST_F(HostileProducer, AMissingDescriptorIsNamed) {
  fake_.fds.pop_back();
  expect_protocol_error("number of descriptors");
}

TEST_F(HostileProducer, ASuperfluousDescriptorIsNamed) {
  fake_.fds.push_back(fake_.fds.back());
  expect_protocol_error("number of descriptors");
}

TEST_F(HostileProducer, EachFieldOfTheWelcomeIsNamed) {
  const wire::Welcome good = fake_.welcome;
  const std::pair<const char*, std::function<void(wire::Welcome&)>> wrongs[] = {
      {"abi_version", [](auto& welcome) { welcome.abi_version = 2; }},
      {"its size is", [](auto& welcome) { welcome.entry_count = 0; }},
      {"entry_count", [](auto& welcome) { welcome.entry_count = 1u << 31; }},
      {"page_size", [](auto& welcome) { welcome.page_size = 4096; }},
      {"colour", [](auto& welcome) { welcome.colour = 32; }},
      {"start", [](auto& welcome) { welcome.start = 0; }},
      {"start", [](auto& welcome) { welcome.start = wire::kMaxSeq; }},
      {"last control message", [](auto& welcome) { welcome.last_number = 5; }},
      {"instance_id", [](auto& welcome) { welcome.instance_id[3] = 9; }},
      {"slot_count", [](auto& welcome) { welcome.segments[0].slot_count = 0; }},
      {"slot_count", [](auto& welcome) { welcome.segments[0].slot_count = 1u << 20; }},
      {"first_slot", [](auto& welcome) { welcome.segments[0].first_slot = 4095; }},
      {"record_stride", [](auto& welcome) { welcome.segments[0].record_stride = 8; }},
      {"slot_size", [](auto& welcome) { welcome.segments[0].slot_size = 0; }},
      {"slot_stride", [](auto& welcome) { welcome.segments[0].slot_stride = 64; }},
      {"slot_stride", [](auto& welcome) { welcome.segments[0].slot_stride = 1u << 30; }},
      {"slots_offset", [](auto& welcome) { welcome.segments[0].slots_offset = 64; }},
      {"size", [](auto& welcome) { welcome.segments[0].total_bytes = 4096; }},
  };
  for (const auto& [words, make_wrong] : wrongs) {
    SCOPED_TRACE(words);
    fake_.welcome = good;
    make_wrong(fake_.welcome);
    expect_protocol_error(words);
  }
}

TEST_F(HostileProducer, EachFieldOfTheRingsHeaderIsNamed) {
  const std::pair<const char*, std::function<void(ring::RingHeader&)>> wrongs[] = {
      {"magic", [](auto& header) { header.magic ^= 1; }},
      {"byte_order", [](auto& header) { header.byte_order = 0x04030201; }},
      {"abi_version", [](auto& header) { header.abi_version = 2; }},
      {"header_size", [](auto& header) { header.header_size = 128; }},
      {"entry_size", [](auto& header) { header.entry_size = 128; }},
      {"entry_count", [](auto& header) { header.entry_count = 128; }},
      {"page_size", [](auto& header) { header.page_size = 1; }},
  };
  for (const auto& [words, make_wrong] : wrongs) {
    SCOPED_TRACE(words);
    ring::RingHeader good{};
    std::memcpy(static_cast<void*>(&good), fake_.header, sizeof good);
    make_wrong(*fake_.header);
    expect_protocol_error(words);
    std::memcpy(static_cast<void*>(fake_.header), &good, sizeof good);
  }
}

TEST_F(HostileProducer, AnEntryOfASlotOutOfRangeIsNamed) {
  fake_.publish(0, 10, 5000);
  expect_protocol_error("slot 5000");
}

TEST_F(HostileProducer, AnEntryOfASlotWithoutASegmentIsNamed) {
  fake_.publish(0, 10, 8);
  expect_protocol_error("slot 8 belongs to no segment");
}

TEST_F(HostileProducer, AFrameLargerThanItsSlotIsNamed) {
  fake_.publish(0, 4097, 1);
  expect_protocol_error("size 4097");
}

TEST_F(HostileProducer, SideDataBeyondItsRecordIsNamed) {
  reinterpret_cast<ring::MetaRecord*>(fake_.data.mapping.data())->extra_size = ring::kRecordStride;
  fake_.publish(0, 100, 0, 0, ring::kTagSideData);
  expect_protocol_error("extra_size 1024");
}

TEST_F(HostileProducer, ALargeInlinePayloadIsNamed) {
  fake_.publish(0, 33, 0, 0, ring::kTagInline);
  expect_protocol_error("inline");
}

TEST_F(HostileProducer, AnOldestEntryThatCannotBeIsNamed) {
  fake_.publish(0, 1, 1, 0, ring::kTagRetired);
  fake_.header->oldest_live.store(~std::uint64_t{0});
  expect_protocol_error("oldest_live");
}

TEST_F(HostileProducer, AMessageThatNeverComesIsNamed) {
  fake_.publish(0, 1, 1, 9);
  expect_protocol_error("didn't come");
}

TEST_F(HostileProducer, AMessageWithAWrongNumberIsNamed) {
  fake_.publish(0, 0, 0, 1, ring::kTagMarker);
  expect_protocol_error("number of a control message", [](transport::ControlSocket& socket) {
    EXPECT_TRUE(ok(socket.send(wire::encode(wire::EventMessage{event(format::EventType::kCustom), 0}, 2))));
  });
}

TEST_F(HostileProducer, AFlushThatEndsBeforeItBeganIsNamed) {
  fake_.publish(0, 0, 0, 1, ring::kTagMarker);
  expect_protocol_error("FLUSH_STOP", [this](transport::ControlSocket& socket) {
    EXPECT_TRUE(ok(socket.send(wire::encode(wire::FlushStop{fake_.welcome.start}, 1))));
  });
}

TEST_F(HostileProducer, APlaceOfAnEndOrAFlushThatCannotBeIsNamed) {
  for (const std::uint64_t seq : {std::uint64_t{0}, fake_.welcome.start - 1, fake_.welcome.start + 1, wire::kMaxSeq}) {
    SCOPED_TRACE(seq);
    fake_.publish(0, 0, 0, 1, ring::kTagMarker);
    expect_protocol_error("sequence number", [&](transport::ControlSocket& socket) {
      EXPECT_TRUE(ok(socket.send(wire::encode(wire::EventMessage{event(format::EventType::kEndOfStream), seq}, 1))));
    });
    expect_protocol_error("sequence number", [&](transport::ControlSocket& socket) {
      EXPECT_TRUE(ok(socket.send(wire::encode(wire::FlushStart{}, 0))));
      EXPECT_TRUE(ok(socket.send(wire::encode(wire::FlushStop{seq}, 1))));
    });
  }
}

TEST_F(HostileProducer, AMessageThatOnlyConsumersSendIsNamed) {
  fake_.publish(0, 0, 0, 1, ring::kTagMarker);
  expect_protocol_error(
      "type", [](transport::ControlSocket& socket) { EXPECT_TRUE(ok(socket.send(wire::encode(good_hello(), 1)))); });
}

TEST_F(HostileProducer, GarbageOnTheSocketIsNamed) {
  expect_protocol_error("magic", [](transport::ControlSocket& socket) {
    const Bytes garbage = payload(100, 1);
    EXPECT_EQ(::send(socket.fd(), garbage.data(), garbage.size(), 0), 100);
  });
}

TEST_F(HostileProducer, ASegmentWithoutItsDescriptorIsNamed) {
  fake_.publish(0, 0, 0, 1, ring::kTagMarker);
  expect_protocol_error("number of descriptors of a data segment", [](transport::ControlSocket& socket) {
    EXPECT_TRUE(ok(socket.send(wire::encode(wire::AddSegment{}, 1))));
  });
}

TEST_F(HostileProducer, ASegmentOverAnotherIsNamed) {
  fake_.publish(0, 0, 0, 1, ring::kTagMarker);
  expect_protocol_error("first_slot", [this](transport::ControlSocket& socket) {
    wire::AddSegment add{fake_.welcome.segments[0]};
    add.segment.id = 2;
    const std::vector<int> fds{fake_.fds[2]};
    EXPECT_TRUE(ok(socket.send(wire::encode(add, 1), fds)));
  });
}

TEST_F(HostileProducer, AnotherFirstMessageThanAWelcomeIsNamed) {
  class Wrong : public transport::HelloHandler {
    void on_hello(transport::ControlSocket&& socket, const wire::Hello&, const transport::PeerCredentials&) override {
      EXPECT_TRUE(ok(socket.send(wire::encode(wire::Leave{}, 0))));
    }
  } handler;
  auto files = transport::LaneFiles::claim(directory_.path(), "lane");
  ASSERT_TRUE(ok(files));
  const auto server = transport::ControlServer::start(std::move(*files), handler);
  ASSERT_TRUE(ok(server));
  Consumer consumer = consume();
  EXPECT_TRUE(fails_with(consumer.connect(kPatience), Code::kProtocol, "WELCOME"));
}

TEST_F(HostileProducer, WhoNeverAnswersIsReported) {
  class Silent : public transport::HelloHandler {
    void on_hello(transport::ControlSocket&& socket, const wire::Hello&, const transport::PeerCredentials&) override {
      kept.push_back(std::move(socket));
    }

   public:
    std::vector<transport::ControlSocket> kept;
  } handler;
  auto files = transport::LaneFiles::claim(directory_.path(), "lane");
  ASSERT_TRUE(ok(files));
  const auto server = transport::ControlServer::start(std::move(*files), handler);
  ASSERT_TRUE(ok(server));
  ConsumerSettings settings;
  settings.connect_timeout = 100ms;
  Consumer consumer = consume(settings);
  EXPECT_TRUE(fails_with(consumer.take(kForever), Code::kNotFound, "doesn't answer"));
}

}  // namespace
}  // namespace framelane::lane_test
