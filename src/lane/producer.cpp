// SPDX-License-Identifier: MIT
#include "framelane/lane/producer.hpp"

#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "lane/producer_core.hpp"

namespace framelane {

// --- Loan

Loan::Loan(Loan&& other) noexcept { *this = std::move(other); }

Loan& Loan::operator=(Loan&& other) noexcept {
  if (this == &other) return *this;
  discard();
  core_ = std::exchange(other.core_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  capacity_ = std::exchange(other.capacity_, 0);
  slot_ = other.slot_;
  if (data_ == nullptr) std::memcpy(inline_, other.inline_, sizeof inline_);
  return *this;
}

void Loan::discard() noexcept {
  if (data_ != nullptr) core_->discard(slot_);
  core_ = nullptr;
  data_ = nullptr;
  capacity_ = 0;
}

// --- Producer

Producer::Producer(std::shared_ptr<lane::ProducerCore> core) noexcept : core_(std::move(core)) {}
Producer::Producer(Producer&&) noexcept = default;

Producer& Producer::operator=(Producer&& other) noexcept {
  if (this == &other) return *this;
  if (core_ != nullptr) lane::ProducerCore::abandon(std::move(core_));
  core_ = std::move(other.core_);
  return *this;
}

Producer::~Producer() {
  if (core_ != nullptr) lane::ProducerCore::abandon(std::move(core_));
}

Result<Producer> Producer::open(ProducerSettings settings) {
  auto core = lane::ProducerCore::create(std::move(settings));
  if (!core) return tl::unexpected(core.error());
  return Producer(std::move(*core));
}

Result<void> Producer::reserve(std::size_t slot_size) { return core_->reserve(slot_size); }
Result<Loan> Producer::loan(std::size_t size) { return core_->loan(size); }
Result<std::optional<Loan>> Producer::try_loan(std::size_t size) { return core_->try_loan(size); }

Result<Published> Producer::publish(Loan& loan, std::size_t size, const format::FrameInfo& info, Wake wake,
                                    std::span<const std::byte> side_data) {
  return core_->publish(loan, size, {info, side_data, wake, false});
}

Result<Published> Producer::publish_copy(std::span<const std::byte> bytes, const format::FrameInfo& info, Wake wake,
                                         std::span<const std::byte> side_data) {
  return core_->publish_copy(bytes, {info, side_data, wake, false});
}

Result<Published> Producer::publish_kept(Loan& loan, std::size_t size, const format::FrameInfo& info, Wake wake,
                                         std::span<const std::byte> side_data) {
  return core_->publish(loan, size, {info, side_data, wake, true});
}

void Producer::reclaimed(std::vector<std::uint16_t>& slots) { core_->reclaimed(slots); }
void Producer::wake_consumers() noexcept { core_->wake_consumers(); }
Result<void> Producer::send(const format::Event& event) { return core_->send(event); }

Result<void> Producer::set_caps(std::string_view caps) {
  format::Event event;
  event.type = format::EventType::kCaps;
  event.text = caps;
  return core_->send(event);
}

Result<void> Producer::end_of_stream() {
  format::Event event;
  event.type = format::EventType::kEndOfStream;
  return core_->send(event);
}

void Producer::flush_start() noexcept { core_->flush_start(); }
Result<void> Producer::flush_stop() { return core_->flush_stop(); }
std::vector<ConsumerRequest> Producer::take_requests() { return core_->take_requests(); }
void Producer::on_request(RequestCallback callback) { core_->on_request(std::move(callback)); }

Result<void> Producer::wait_for_consumers(std::uint32_t count, std::chrono::nanoseconds timeout) {
  return core_->wait_for_consumers(count, base::deadline_after(timeout));
}

Result<void> Producer::drain(std::chrono::nanoseconds timeout) { return core_->drain(base::deadline_after(timeout)); }
void Producer::set_leaky(Leaky leaky) noexcept { core_->set_leaky(leaky); }
std::uint32_t Producer::num_consumers() const noexcept { return core_->num_consumers(); }
void Producer::interrupt() noexcept { core_->interrupt(); }
void Producer::resume() noexcept { core_->resume(); }
ProducerStats Producer::stats() const { return core_->stats(); }
const std::string& Producer::descriptor() const noexcept { return core_->descriptor(); }
void Producer::on_consumer(ConsumerCallback callback) { core_->on_consumer(std::move(callback)); }

void Producer::close() noexcept {
  if (core_ != nullptr) core_->close();
}

}  // namespace framelane
