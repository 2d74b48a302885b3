// SPDX-License-Identifier: MIT
#include "traffic.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace framelane::fault {
namespace {

constexpr unsigned kNumberBits = 40;
constexpr std::uint64_t kGrowsEvery = 40;  // frames

std::uint64_t mixed(std::uint64_t word) noexcept {
  word = (word ^ (word >> 31)) * 0x9e3779b97f4a7c15u;
  return word ^ (word >> 29);
}

std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t place) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + place, sizeof word);
  return word;
}

}  // namespace

std::size_t size_of(std::uint64_t number) noexcept {
  if (number % 5 == 0) return 24;
  return std::size_t{320} << number / kGrowsEvery % 8;
}

void write_frame(std::span<std::byte> bytes, const FrameId& id) noexcept {
  const std::uint64_t first = std::uint64_t{id.producer} << kNumberBits | id.number;
  std::memcpy(bytes.data(), &first, sizeof first);
  for (std::size_t place = 8; place + 8 <= bytes.size(); place += 8) {
    const std::uint64_t word = mixed(first * 31 + bytes.size() + place);
    std::memcpy(bytes.data() + place, &word, sizeof word);
  }
}

std::optional<FrameId> read_frame(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < 24 || bytes.size() % 8 != 0) return std::nullopt;
  const std::uint64_t first = word_at(bytes, 0);
  const FrameId id{static_cast<std::uint32_t>(first >> kNumberBits), first & ((std::uint64_t{1} << kNumberBits) - 1)};
  for (std::size_t place = 8; place < bytes.size(); place += 8) {
    if (word_at(bytes, place) != mixed(first * 31 + bytes.size() + place)) return std::nullopt;
  }
  return id;
}

Result<Published> publish_frame(Producer& producer, const FrameId& id, std::size_t size) {
  auto loan = producer.loan(size);
  if (!loan) return tl::unexpected(loan.error());
  write_frame(loan->bytes().first(size), id);
  return producer.publish(std::move(*loan), size);
}

void Account::take(Frame frame) {
  const auto id = read_frame(frame.bytes());
  if (!id) return blame("frame " + std::to_string(frame.seq()) + " is torn");
  if (id->number != frame.seq())
    return blame("frame " + std::to_string(frame.seq()) + " carries the number " + std::to_string(id->number));
  if (!runs_.empty() && id->producer < runs_.rbegin()->first)
    return blame("a frame of producer " + std::to_string(id->producer) + " after one of its successor");
  const bool begins = !runs_.contains(id->producer);
  Run& run = runs_[id->producer];
  if (begins) run.first = run.next = id->number - std::min(frame.skipped(), id->number);
  const std::uint64_t due = run.next + frame.skipped();
  if (gap_ ? id->number < run.next : id->number != due) {
    return blame("producer " + std::to_string(id->producer) + ": frame " + std::to_string(id->number) + " instead of " +
                 std::to_string(due));
  }
  (gap_ ? run.missed : run.skipped) += id->number - run.next;
  gap_ = false;
  run.next = id->number + 1;
  ++run.taken;
  kept_.push_back({std::move(frame), *id});
  if (kept_.size() > most_kept_) release_one();
}

void Account::release_one() {
  const Kept& oldest = kept_.front();
  const auto id = read_frame(oldest.frame.bytes());
  if (!id || *id != oldest.id) blame("frame " + std::to_string(oldest.id.number) + " changed while it was held");
  kept_.pop_front();
}

void Account::release_all() {
  while (!kept_.empty()) release_one();
}

void Account::blame(const std::string& words) {
  if (fault_.empty()) fault_ = words;
}

}  // namespace framelane::fault
