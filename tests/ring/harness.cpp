// SPDX-License-Identifier: MIT
#include "harness.hpp"

#include <cstring>

#include <fcntl.h>

#include "memory/sealed_memory.hpp"

namespace framelane::ring::testing {
namespace {

base::UniqueFd copy_of(int fd) { return base::UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

std::uint64_t word_of(std::uint64_t number, std::size_t place) noexcept {
  std::uint64_t word = number + (place + 1) * 0x9e3779b97f4a7c15;
  word = (word ^ word >> 31) * 0xd6e8feb86659fd93;
  return word ^ word >> 29;
}

}  // namespace

void fill(std::byte* data, std::size_t size, std::uint64_t number) noexcept {
  for (std::size_t i = 0; i < size / 8; ++i) {
    const std::uint64_t word = word_of(number, i);
    std::memcpy(data + i * 8, &word, 8);
  }
}

bool intact(const std::byte* data, std::size_t size, std::uint64_t number) noexcept {
  for (std::size_t i = 0; i < size / 8; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + i * 8, 8);
    if (word != word_of(number, i)) return false;
  }
  return true;
}

bool intact(const Taken& taken, std::uint64_t number) noexcept {
  const auto* const words = reinterpret_cast<const std::byte*>(taken.inline_words);
  return intact(taken.is_inline ? words : taken.data, taken.size, number);
}

// --- control

void FakeControl::push(std::uint64_t number, Message message) {
  const std::lock_guard lock(mutex_);
  if (number != messages_.size() + 1) std::abort();  // the Writer's numbers have no gaps
  messages_.push_back(std::make_unique<const Message>(std::move(message)));
}

void FakeControl::add_segment(std::uint64_t number, std::uint64_t seq, const SegmentSpec& spec, int fd) {
  Message message;
  message.kind = Message::kAddSegment;
  message.seq = seq;
  message.spec = spec;
  message.fd = copy_of(fd);
  push(number, std::move(message));
}

void FakeControl::retire_segment(std::uint64_t number, std::uint64_t seq, std::uint32_t segment_id) {
  Message message;
  message.kind = Message::kRetireSegment;
  message.seq = seq;
  message.segment_id = segment_id;
  push(number, std::move(message));
}

void FakeControl::event(std::uint64_t number, std::uint64_t seq, int event) {
  Message message;
  message.seq = seq;
  message.event = event;
  push(number, std::move(message));
}

void FakeControl::demoted(ConsumerId id, bool demoted) {
  const std::lock_guard lock(mutex_);
  demotions_.emplace_back(id, demoted);
}

void FakeControl::broke_protocol(ConsumerId id, std::string_view field) {
  const std::lock_guard lock(mutex_);
  broken_.emplace_back(id, field);
}

const Message* FakeControl::message(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return number == 0 || number > messages_.size() ? nullptr : messages_[static_cast<std::size_t>(number - 1)].get();
}

std::size_t FakeControl::count() const {
  const std::lock_guard lock(mutex_);
  return messages_.size();
}

std::vector<std::pair<ConsumerId, bool>> FakeControl::demotions() const {
  const std::lock_guard lock(mutex_);
  return demotions_;
}

std::vector<std::pair<ConsumerId, std::string>> FakeControl::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

// --- lane

Lane::Lane(WriterSettings settings) {
  if (settings.name.empty()) settings.name = "ring-test";
  writer = must(Writer::create(std::move(settings), kInstance, control));
}

bool Lane::send_slot(std::size_t size) {
  static constexpr format::FrameInfo kNoInfo{};
  const SlotRef slot = must(writer->loan(size));
  fill(slot.data, size, sent_);
  const bool sent = must(writer->publish({&slot, nullptr, static_cast<std::uint32_t>(size), &kNoInfo}));
  if (sent) ++sent_;
  if (!sent) writer->discard(slot.slot);
  return sent;
}

bool Lane::send_inline(std::size_t size, bool wake) {
  static constexpr format::FrameInfo kNoInfo{};
  std::byte bytes[kInlineBytes] = {};
  fill(bytes, size, sent_);
  const bool sent = must(writer->publish({nullptr, bytes, static_cast<std::uint32_t>(size), &kNoInfo, false, wake}));
  if (sent) ++sent_;
  return sent;
}

bool Lane::send(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!send_slot()) return false;
  }
  return true;
}

void Lane::send_event(int event, Writer::MarkerKind kind) {
  must(writer->publish_marker([&](std::uint64_t number, std::uint64_t seq) { control.event(number, seq, event); },
                              kind));
}

void Lane::reclaim() {
  std::vector<std::uint16_t> kept;
  writer->reclaimed(kept);
}

std::pair<std::uint32_t, std::uint32_t> Lane::free_slots() {
  reclaim();
  std::pair<std::uint32_t, std::uint32_t> slots;
  writer->inspect([&](const auto&, const SlotPool& pool, std::uint32_t) {
    slots = {pool.free_count(), pool.slots_in_use()};
  });
  return slots;
}

std::uint32_t Lane::loans() const {
  std::uint32_t count = 0;
  writer->inspect([&](const auto&, const SlotPool&, std::uint32_t loans) { count = loans; });
  return count;
}

std::shared_ptr<ConsumerLink> Lane::link(ConsumerId id) const {
  std::shared_ptr<ConsumerLink> found;
  writer->inspect([&](const auto& links, const SlotPool&, std::uint32_t) {
    for (const auto& link : links) {
      if (link->id == id) found = link;
    }
  });
  return found;
}

// --- consumer

TestConsumer::TestConsumer(Lane& lane, const JoinOptions& options) : lane_(lane) {
  id_ = must(lane.writer->add_consumer({options.gating, options.max_held},
                                       [&](const Writer::Joined& joined) { welcome(joined, options); }));
}

TestConsumer::~TestConsumer() { leave(); }

void TestConsumer::leave() noexcept {
  if (id_ != 0) lane_.writer->remove_consumer(id_);
  id_ = 0;
}

void TestConsumer::welcome(const Writer::Joined& joined, const JoinOptions& options) {
  const std::uint32_t entries = lane_.writer->entry_count();
  ReaderSettings settings;
  settings.ring = must(memory::map_received(lane_.writer->ring_fd(), ring_bytes(entries), memory::Sharing::kReadOnly));
  settings.page = must(memory::map_received(joined.page_fd, sizeof(ConsumerPage), memory::Sharing::kReadWrite));
  settings.instance_id = kInstance;
  settings.entry_count = entries;
  settings.colour = joined.colour;
  settings.max_held = joined.max_held;
  settings.start = joined.start;
  settings.start_number = joined.start_number;
  settings.latest = options.latest;
  settings.spin = options.spin;
  if (options.lie) options.lie(settings);
  page_ = static_cast<ConsumerPage*>(static_cast<void*>(settings.page.data()));
  start_ = settings.start;
  applied_ = settings.start_number;
  start_index_ = start_ - entries - applied_;
  reader_ = must(Reader::create(std::move(settings)));
  for (const SlotPool::Segment& segment : *joined.segments) {
    if (!segment.announced) continue;  // its message is still to come
    const auto size = static_cast<std::size_t>(segment.spec.total_bytes);
    must(reader_->add_segment(segment.spec,
                              must(memory::map_received(segment.memory->fd.get(), size, memory::Sharing::kReadOnly))));
  }
}

Result<std::uint64_t> TestConsumer::apply_up_to(std::uint16_t ctl) {
  while (static_cast<std::uint16_t>(applied_) != ctl) {
    const Message* const message = lane_.control.message(applied_ + 1);
    if (message == nullptr) return fail(Code::kProtocol, "a control message didn't come");
    if (auto applied = apply(*message); !applied) return tl::unexpected(applied.error());
    ++applied_;
  }
  return applied_;
}

Result<void> TestConsumer::apply(const Message& message) {
  switch (message.kind) {
    case Message::kEvent:
      events.push_back(message.event);
      return {};
    case Message::kAddSegment: {
      const auto size = static_cast<std::size_t>(message.spec.total_bytes);
      auto mapping = memory::map_received(message.fd.get(), size, memory::Sharing::kReadOnly);
      if (!mapping) return tl::unexpected(mapping.error());
      return reader_->add_segment(message.spec, std::move(*mapping));
    }
    case Message::kRetireSegment:
      return reader_->retire_segment(message.segment_id);
  }
  return fail(Code::kProtocol);
}

std::optional<Got> TestConsumer::take_entry() {
  Got taken;
  if (must(reader_->poll(taken, *this)) == Reader::Step::kEmpty) return std::nullopt;
  return taken;
}

std::optional<Got> TestConsumer::take() {
  for (;;) {
    auto taken = take_entry();
    if (!taken || !taken->marker) return taken;
  }
}

std::vector<std::uint64_t> TestConsumer::take_all() {
  std::vector<std::uint64_t> indexes;
  while (const auto taken = take()) {
    indexes.push_back(taken->index);
    if (!taken->is_inline) reader_->release(taken->slot);
  }
  return indexes;
}

}  // namespace framelane::ring::testing
