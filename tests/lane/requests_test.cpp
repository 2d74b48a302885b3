// SPDX-License-Identifier: MIT
// What consumers ask of their producer.
#include <atomic>
#include <optional>
#include <thread>

#include "lane/rate_limit.hpp"
#include "lane/request_queue.hpp"
#include "raw_peer.hpp"

namespace framelane::lane_test {
namespace {

using format::Request;
using format::RequestType;
using Requests = LaneTest;

Request key_unit(std::uint64_t time = format::kNoTime) {
  Request request;
  request.time = time;
  return request;
}

Request custom(const std::string& text) {
  Request request;
  request.type = RequestType::kCustom;
  request.text = text;
  return request;
}

/// Waits for `count` of them.
std::vector<ConsumerRequest> requests(Producer& producer, std::size_t count) {
  std::vector<ConsumerRequest> all;
  EXPECT_TRUE(eventually([&] {
    for (auto& one : producer.take_requests()) all.push_back(std::move(one));
    return all.size() >= count;
  }));
  return all;
}

TEST_F(Requests, ReachTheProducerWhole) {
  Producer producer = produce();
  Consumer consumer = join();
  Request sent;
  sent.type = RequestType::kQos;
  sent.number = 2;
  sent.time = 123;
  sent.proportion = 1.5;
  sent.jitter_ns = -77;
  sent.headers = true;
  sent.text = "text";
  ASSERT_TRUE(ok(consumer.send_upstream(sent)));
  const auto got = requests(producer, 1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].request, sent);
  EXPECT_EQ(got[0].consumer, producer.stats().consumers.at(0).id);
  EXPECT_TRUE(producer.take_requests().empty());
}

TEST_F(Requests, SayWhoAsked) {
  Producer producer = produce();
  Consumer first = join();
  Consumer second = join();
  ASSERT_TRUE(ok(second.send_upstream(custom("second"))));
  ASSERT_TRUE(ok(first.send_upstream(custom("first"))));
  for (const auto& one : requests(producer, 2)) EXPECT_EQ(one.consumer, one.request.text == "first" ? 1u : 2u);
}

TEST_F(Requests, WithoutAProducerAreRefused) {
  Consumer consumer = consume();
  EXPECT_TRUE(fails_with(consumer.send_upstream(key_unit()), Code::kNotFound, "connected"));
}

TEST_F(Requests, ThatCannotTravelAreRefused) {
  Producer producer = produce();
  Consumer consumer = join();
  Request wrong = key_unit();
  wrong.proportion = -1;
  EXPECT_TRUE(fails_with(consumer.send_upstream(wrong), Code::kInvalidArgument, "proportion"));
  EXPECT_TRUE(fails_with(consumer.send_upstream(custom(std::string(format::kMaxRequestText + 1, 'x'))), Code::kTooLarge,
                         "bytes"));
  ASSERT_TRUE(ok(consumer.send_upstream(custom(std::string(format::kMaxRequestText, 'x')))));
  EXPECT_EQ(requests(producer, 1).size(), 1u);
}

TEST_F(Requests, TheCallbackComesOnceUntilTheyAreTaken) {
  Producer producer = produce();
  Consumer consumer = join();
  std::atomic<int> called{0};
  ASSERT_TRUE(ok(consumer.send_upstream(custom("before the callback"))));
  std::vector<ConsumerRequest> got = requests(producer, 1);
  producer.on_request([&] { ++called; });
  EXPECT_EQ(called, 0);
  ASSERT_TRUE(ok(consumer.send_upstream(custom("1"))));
  ASSERT_TRUE(eventually([&] { return called == 1; }));
  ASSERT_TRUE(ok(consumer.send_upstream(custom("2"))));
  got = requests(producer, 2);
  EXPECT_LE(called, 2) << "the second may have come after the first was taken";
  const int before = called;
  ASSERT_TRUE(ok(consumer.send_upstream(custom("3"))));
  EXPECT_TRUE(eventually([&] { return called > before; }));
}

TEST_F(Requests, ThatCameBeforeTheCallbackAreToldToIt) {
  Producer producer = produce();
  Consumer consumer = join();
  ASSERT_TRUE(ok(consumer.send_upstream(key_unit())));
  std::atomic<int> called{0};
  EXPECT_TRUE(eventually([&] {
    producer.on_request([&] { ++called; });
    return called > 0;
  }));
}

TEST_F(Requests, AreLimitedWhereTheyAreMade) {
  Producer producer = produce();
  Consumer consumer = join();
  Result<void> sent{};
  int count = 0;
  for (; sent && count < 100'000; ++count) sent = consumer.send_upstream(key_unit());
  EXPECT_TRUE(fails_with(sent, Code::kFull, "a second"));
  EXPECT_GE(count, 64);
  EXPECT_TRUE(eventually([&] { return consumer.send_upstream(key_unit()).has_value(); })) << "and later again";
  EXPECT_EQ(producer.num_consumers(), 1u) << "who keeps to the limit is no flood";
}

TEST_F(Requests, OfAStoppedProducerNeverBlock) {
  if (is_stream()) GTEST_SKIP() << "speaks to the control socket";
  // A producer whose monitor doesn't read is a socket that nobody reads.
  Producer producer = produce();
  RawConsumer raw(directory_.path() + "/lane");
  Consumer consumer = join();
  std::atomic<bool> go{false};
  std::atomic<bool> blocked{false};
  producer.on_request([&] {
    blocked = true;
    while (!go) std::this_thread::sleep_for(1ms);
  });
  ASSERT_TRUE(ok(consumer.send_upstream(key_unit())));
  ASSERT_TRUE(eventually([&] { return blocked.load(); }));
  Result<void> sent{};
  const std::string text(format::kMaxRequestText, 'x');
  EXPECT_TRUE(eventually([&] {
    sent = consumer.send_upstream(custom(text));
    return !sent && sent.error().text.find("doesn't read") != std::string::npos;
  }));
  go = true;
  publish_frames(producer, 0, 1);
  take_frames(consumer, 0, 1);
}

// --- what becomes of many

TEST(RequestQueue, MakesOneOfAllWishesForAKeyUnit) {
  lane::RequestQueue queue;
  Request late = key_unit(100);
  late.number = 1;
  Request early = key_unit(50);
  early.headers = true;
  early.number = 3;
  queue.push(late);
  queue.push(early);
  std::vector<ConsumerRequest> got;
  queue.take(7, got);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].consumer, 7u);
  EXPECT_EQ(got[0].request.time, 50u);
  EXPECT_TRUE(got[0].request.headers);
  EXPECT_EQ(got[0].request.number, 3u);
  queue.push(late);
  queue.push(key_unit());
  queue.take(7, got);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[1].request.time, format::kNoTime) << "at once is sooner than any time";
}

TEST(RequestQueue, KeepsTheLastReportAndTheOthersOfOneBurst) {
  lane::RequestQueue queue;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    queue.push(custom(std::to_string(i)));
    Request report;
    report.type = RequestType::kQos;
    report.time = i;
    queue.push(report);
  }
  std::vector<ConsumerRequest> got;
  queue.take(1, got);
  ASSERT_EQ(got.size(), lane::kRequestsAtOnce + 1);
  EXPECT_EQ(got[1].request.time, 999u);
  EXPECT_EQ(got.back().request.text, std::to_string(lane::kRequestsAtOnce - 1));
}

TEST(RateLimit, LetsABurstThroughAndThenSoManyASecond) {
  lane::RateLimit limit(4, 100);
  std::int64_t now = 1'000'000'000'000;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(limit.take(now));
  EXPECT_FALSE(limit.take(now));
  now += 10'000'000;
  EXPECT_TRUE(limit.take(now));
  EXPECT_FALSE(limit.take(now));
  now += 10'000'000'000;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(limit.take(now));
  EXPECT_FALSE(limit.take(now)) << "a long pause saves up one burst and no more";
}

}  // namespace
}  // namespace framelane::lane_test
