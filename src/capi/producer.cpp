// SPDX-License-Identifier: MIT
#include "framelane/lane/producer.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "capi/handles.hpp"

struct framelane_producer {
  explicit framelane_producer(framelane::Producer&& opened) : producer(std::move(opened)) {}

  framelane::Producer producer;
  framelane::capi::PoolUse<framelane_loan> loans;
  std::mutex mutex;
  std::deque<framelane::ConsumerRequest> wishes;  // mutex
  framelane::ConsumerRequest told;                // the last one: its text is the caller's. mutex
  std::vector<std::uint16_t> reclaimed;           // mutex
};

namespace framelane::capi {
namespace {

framelane_producer_stats to_c(const ProducerStats& from) noexcept {
  framelane_producer_stats to{};
  to.num_consumers = static_cast<std::uint32_t>(from.consumers.size());
  to.published = from.published;
  to.bytes = from.bytes;
  to.dropped_full = from.dropped_full;
  to.passed_over = from.passed_over;
  to.full_waits = from.full_waits;
  to.wakes = from.wakes;
  to.demotions = from.demotions;
  to.evictions = from.evictions;
  to.copied = from.copied;
  to.loans = from.loans;
  to.slots = from.slots;
  to.free_slots = from.free_slots;
  return to;
}

framelane_upstream to_c(const ConsumerRequest& from) noexcept {
  framelane_upstream to{};
  to.type = static_cast<std::int32_t>(from.request.type);
  to.number = from.request.number;
  to.headers = from.request.headers ? 1 : 0;
  to.time = from.request.time;
  to.proportion = from.request.proportion;
  to.jitter_ns = from.request.jitter_ns;
  to.consumer = from.consumer;
  to.text = from.request.text.c_str();
  return to;
}

/// What publish() said, to the caller; the loan's handle goes back when it is used up.
framelane_code finish(const Result<Published>& done, framelane_loan* used, std::int32_t* published) noexcept {
  if (!done) return report(done.error());
  if (published != nullptr) *published = static_cast<std::int32_t>(*done);
  if (used != nullptr) used->pool->put(used);
  return FRAMELANE_OK;
}

void start(std::int32_t* published) noexcept {
  if (published != nullptr) *published = FRAMELANE_PUBLISHED;
}

framelane_code check_loan(const framelane_producer* producer, const framelane_loan* loan) noexcept {
  if (producer == nullptr) return missing("producer");
  return loan == nullptr ? missing("loan") : FRAMELANE_OK;
}

}  // namespace
}  // namespace framelane::capi

using namespace framelane;
using namespace framelane::capi;

framelane_code framelane_producer_open(const char* lane, const framelane_producer_settings* settings,
                                       framelane_producer** producer) {
  if (producer == nullptr) return missing("producer");
  *producer = nullptr;
  return guarded([&]() -> framelane_code {
    auto wanted = to_settings(lane, settings);
    if (!wanted) return report(wanted.error());
    auto opened = Producer::open(std::move(*wanted));
    if (!opened) return report(opened.error());
    auto handle = std::make_unique<framelane_producer>(std::move(*opened));
    if (handle->loans.pool() == nullptr) throw std::bad_alloc();
    *producer = handle.release();
    return FRAMELANE_OK;
  });
}

void framelane_producer_close(framelane_producer* producer) { delete producer; }

framelane_code framelane_producer_reserve(framelane_producer* producer, size_t slot_size) {
  if (producer == nullptr) return missing("producer");
  return guarded([&] { return code_of(producer->producer.reserve(slot_size)); });
}

framelane_code framelane_producer_loan(framelane_producer* producer, size_t size, framelane_loan** loan) {
  if (loan == nullptr) return missing("loan");
  *loan = nullptr;
  if (producer == nullptr) return missing("producer");
  return guarded([&] {
    auto lent = producer->producer.loan(size);
    return lent ? lend(std::move(*lent), producer->loans.pool(), loan) : report(lent.error());
  });
}

framelane_code framelane_producer_try_loan(framelane_producer* producer, size_t size, framelane_loan** loan) {
  if (loan == nullptr) return missing("loan");
  *loan = nullptr;
  if (producer == nullptr) return missing("producer");
  return guarded([&] {
    auto lent = producer->producer.try_loan(size);
    if (!lent) return report(lent.error());
    if (!*lent) return report(Code::kFull, "no slot of that size can be had without waiting");
    return lend(std::move(**lent), producer->loans.pool(), loan);
  });
}

framelane_code framelane_producer_publish(framelane_producer* producer, framelane_loan* loan, size_t size,
                                          const framelane_frame_info* info, const framelane_publish_options* options,
                                          int32_t* published) {
  start(published);
  PublishArguments how;
  if (const auto code = check_loan(producer, loan); code != FRAMELANE_OK) return code;
  if (const auto code = how.read(info, options); code != FRAMELANE_OK) return code;
  return guarded([&] {
    return finish(producer->producer.publish(loan->loan, size, how.info, how.wake, how.side_data), loan, published);
  });
}

framelane_code framelane_producer_publish_copy(framelane_producer* producer, const void* data, size_t size,
                                               const framelane_frame_info* info,
                                               const framelane_publish_options* options, int32_t* published) {
  start(published);
  PublishArguments how;
  if (producer == nullptr) return missing("producer");
  if (data == nullptr && size != 0) return missing("data");
  if (const auto code = how.read(info, options); code != FRAMELANE_OK) return code;
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(data), size);
  return guarded([&] {
    return finish(producer->producer.publish_copy(bytes, how.info, how.wake, how.side_data), nullptr, published);
  });
}

framelane_code framelane_producer_publish_many(framelane_producer* producer, framelane_loan* const* loans,
                                               const size_t* sizes, const framelane_frame_info* infos, size_t count,
                                               size_t* done) {
  std::size_t published = 0;
  if (done != nullptr) *done = 0;
  if (producer == nullptr) return missing("producer");
  if (count != 0 && loans == nullptr) return missing("loans");
  if (count != 0 && sizes == nullptr) return missing("sizes");
  framelane_publish_options later{sizeof later, FRAMELANE_WAKE_LATER, nullptr, 0};
  framelane_code code = FRAMELANE_OK;
  for (; published < count; ++published) {
    const framelane_frame_info* const info = infos != nullptr ? element(infos, published) : nullptr;
    code = framelane_producer_publish(producer, loans[published], sizes[published], info, &later, nullptr);
    if (code != FRAMELANE_OK) break;
  }
  if (published != 0) producer->producer.wake_consumers();
  if (done != nullptr) *done = published;
  return code;
}

framelane_code framelane_producer_publish_kept(framelane_producer* producer, framelane_loan* loan, size_t size,
                                               const framelane_frame_info* info,
                                               const framelane_publish_options* options, int32_t* published) {
  start(published);
  PublishArguments how;
  if (const auto code = check_loan(producer, loan); code != FRAMELANE_OK) return code;
  if (const auto code = how.read(info, options); code != FRAMELANE_OK) return code;
  return guarded([&] {
    return finish(producer->producer.publish_kept(loan->loan, size, how.info, how.wake, how.side_data), nullptr,
                  published);
  });
}

framelane_code framelane_producer_reclaimed(framelane_producer* producer, uint16_t* slots, size_t capacity,
                                            size_t* count) {
  if (count == nullptr) return missing("count");
  *count = 0;
  if (producer == nullptr) return missing("producer");
  if (slots == nullptr && capacity != 0) return missing("slots");
  return guarded([&] {
    const std::lock_guard lock(producer->mutex);
    auto& waiting = producer->reclaimed;  // what didn't fit is for the next call
    producer->producer.reclaimed(waiting);
    *count = std::min(capacity, waiting.size());
    std::copy_n(waiting.begin(), *count, slots);
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(*count));
    return FRAMELANE_OK;
  });
}

void framelane_producer_wake_consumers(framelane_producer* producer) {
  if (producer != nullptr) producer->producer.wake_consumers();
}

framelane_code framelane_producer_send(framelane_producer* producer, const framelane_event* event) {
  if (producer == nullptr) return missing("producer");
  framelane_event from = event_to_c(format::Event());
  from.text = nullptr;
  if (const auto code = copy_in(event, from, "framelane_event"); code != FRAMELANE_OK) return code;
  if (from.type < FRAMELANE_EVENT_STREAM_START || from.type > FRAMELANE_EVENT_FLUSH_STOP) {
    return report(Code::kInvalidArgument, "framelane_event.type is none of FRAMELANE_EVENT_");
  }
  return guarded([&] {
    format::Event to;
    to.type = static_cast<format::EventType>(from.type);
    to.number = from.number;
    to.group = from.group;
    to.text = or_empty(from.text);
    to.pts = from.pts;
    to.duration = from.duration;
    const framelane_segment& segment = from.segment;
    to.segment = {static_cast<format::SegmentFormat>(segment.format),
                  segment.flags,
                  segment.rate,
                  segment.applied_rate,
                  segment.base,
                  segment.offset,
                  segment.start,
                  segment.stop,
                  segment.time,
                  segment.position,
                  segment.duration};
    return code_of(producer->producer.send(to));
  });
}

framelane_code framelane_producer_set_caps(framelane_producer* producer, const char* caps) {
  if (producer == nullptr) return missing("producer");
  if (caps == nullptr) return missing("caps");
  return guarded([&] { return code_of(producer->producer.set_caps(caps)); });
}

framelane_code framelane_producer_end_of_stream(framelane_producer* producer) {
  if (producer == nullptr) return missing("producer");
  return guarded([&] { return code_of(producer->producer.end_of_stream()); });
}

void framelane_producer_flush_start(framelane_producer* producer) {
  if (producer != nullptr) producer->producer.flush_start();
}

framelane_code framelane_producer_flush_stop(framelane_producer* producer) {
  if (producer == nullptr) return missing("producer");
  return guarded([&] { return code_of(producer->producer.flush_stop()); });
}

framelane_code framelane_producer_take_upstream(framelane_producer* producer, framelane_upstream* upstream) {
  if (producer == nullptr) return missing("producer");
  if (const auto code = check_struct(upstream, "framelane_upstream"); code != FRAMELANE_OK) return code;
  return guarded([&] {
    const std::lock_guard lock(producer->mutex);
    auto& wishes = producer->wishes;
    for (auto& wish : producer->producer.take_requests()) wishes.push_back(std::move(wish));
    write_struct(framelane_upstream{}, upstream);
    if (wishes.empty()) return report(Code::kTimeout, "no consumer asked for anything");
    producer->told = std::move(wishes.front());
    wishes.pop_front();
    write_struct(to_c(producer->told), upstream);
    return FRAMELANE_OK;
  });
}

framelane_code framelane_producer_on_upstream(framelane_producer* producer, framelane_notify_fn notify, void* user) {
  if (producer == nullptr) return missing("producer");
  return guarded([&] {
    Producer::RequestCallback callback;
    if (notify != nullptr) callback = [notify, user] { notify(user); };
    producer->producer.on_request(std::move(callback));
    return FRAMELANE_OK;
  });
}

framelane_code framelane_producer_on_consumer(framelane_producer* producer, framelane_consumer_fn notify, void* user) {
  if (producer == nullptr) return missing("producer");
  return guarded([&] {
    Producer::ConsumerCallback callback;
    if (notify != nullptr) {
      callback = [notify, user](const ConsumerInfo& info, bool joined, std::string_view reason) {
        const framelane_consumer_info told = consumer_to_c(info);
        notify(&told, joined ? 1 : 0, std::string(reason).c_str(), user);
      };
    }
    producer->producer.on_consumer(std::move(callback));
    return FRAMELANE_OK;
  });
}

framelane_code framelane_producer_wait_for_consumers(framelane_producer* producer, uint32_t count, int64_t timeout_ns) {
  if (producer == nullptr) return missing("producer");
  return guarded([&] { return code_of(producer->producer.wait_for_consumers(count, timeout_of(timeout_ns))); });
}

framelane_code framelane_producer_drain(framelane_producer* producer, int64_t timeout_ns) {
  if (producer == nullptr) return missing("producer");
  return guarded([&] { return code_of(producer->producer.drain(timeout_of(timeout_ns))); });
}

uint32_t framelane_producer_num_consumers(const framelane_producer* producer) {
  return producer != nullptr ? producer->producer.num_consumers() : 0;
}

framelane_code framelane_producer_set_leaky(framelane_producer* producer, int32_t leaky) {
  if (producer == nullptr) return missing("producer");
  if (const auto code = check_enum(leaky, FRAMELANE_LEAKY_DOWNSTREAM, "leaky"); code != FRAMELANE_OK) return code;
  producer->producer.set_leaky(static_cast<Leaky>(leaky));
  return FRAMELANE_OK;
}

void framelane_producer_interrupt(framelane_producer* producer) {
  if (producer != nullptr) producer->producer.interrupt();
}

void framelane_producer_resume(framelane_producer* producer) {
  if (producer != nullptr) producer->producer.resume();
}

framelane_code framelane_producer_get_stats(const framelane_producer* producer, framelane_producer_stats* stats,
                                            framelane_consumer_info* consumers, size_t capacity) {
  if (producer == nullptr) return missing("producer");
  if (const auto code = check_struct(stats, "framelane_producer_stats"); code != FRAMELANE_OK) return code;
  if (const auto code = check_consumers(consumers, capacity); code != FRAMELANE_OK) return code;
  return guarded([&] {
    const ProducerStats all = producer->producer.stats();
    write_struct(to_c(all), stats);
    write_consumers(all.consumers, consumers, capacity);
    return FRAMELANE_OK;
  });
}

const char* framelane_producer_descriptor(const framelane_producer* producer) {
  return producer != nullptr ? producer->producer.descriptor().c_str() : "";
}
