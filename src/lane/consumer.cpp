// SPDX-License-Identifier: MIT
#include "framelane/lane/consumer.hpp"

#include "base/clock.hpp"
#include "lane/consumer_core.hpp"

namespace framelane {

Consumer::Consumer(std::unique_ptr<lane::ConsumerCore> core) noexcept : core_(std::move(core)) {}
Consumer::Consumer(Consumer&&) noexcept = default;
Consumer& Consumer::operator=(Consumer&&) noexcept = default;
Consumer::~Consumer() = default;

Result<Consumer> Consumer::open(ConsumerSettings settings) {
  auto core = lane::ConsumerCore::create(std::move(settings));
  if (!core) return tl::unexpected(core.error());
  return Consumer(std::move(*core));
}

Result<void> Consumer::connect(std::chrono::nanoseconds timeout) {
  return core_->connect(base::deadline_after(timeout));
}

Result<Frame> Consumer::take(std::chrono::nanoseconds timeout) noexcept {
  // One variable is returned on every path, so that it is built where the caller wants it: a move costs as much as a
  // take.
  Result<Frame> frame(tl::in_place);
  core_->take(frame, timeout);
  return frame;
}

Result<Item> Consumer::take_item(std::chrono::nanoseconds timeout) noexcept {
  auto item = core_->next(base::deadline_after(timeout), true);
  if (!item) return tl::unexpected(item.error());
  return std::move(**item);
}

Result<std::optional<Frame>> Consumer::try_take() noexcept {
  Frame frame;
  auto taken = core_->take_at_once(frame);
  if (!taken) return tl::unexpected(taken.error());
  if (*taken) return std::optional<Frame>(std::move(frame));
  auto item = core_->next(0, false);
  if (!item) return tl::unexpected(item.error());
  if (!*item) return std::optional<Frame>();
  return std::optional<Frame>(std::get<Frame>(std::move(**item)));
}

Result<int> Consumer::event_fd() { return core_->event_fd(); }
const std::string& Consumer::caps() const noexcept { return core_->caps(); }
const std::string& Consumer::plane_layout() const noexcept { return core_->plane_layout(); }
Result<void> Consumer::send_upstream(const format::Request& request) { return core_->send(request); }
void Consumer::on_connection(ConnectionCallback callback) { core_->on_connection(std::move(callback)); }
void Consumer::on_flush(FlushCallback callback) { core_->on_flush(std::move(callback)); }
bool Consumer::flushing() const { return core_->flushing(); }
std::array<std::uint8_t, 16> Consumer::producer_id() const { return core_->producer_id(); }
void Consumer::interrupt() noexcept { core_->interrupt(); }
void Consumer::resume() noexcept { core_->resume(); }
ConsumerStats Consumer::stats() const { return core_->stats(); }
std::string Consumer::transport() const { return core_->transport(); }
std::string Consumer::transport_reason() const { return core_->transport_reason(); }
const std::string& Consumer::descriptor() const noexcept { return core_->descriptor(); }
void Consumer::close() noexcept { core_->close(); }

}  // namespace framelane
