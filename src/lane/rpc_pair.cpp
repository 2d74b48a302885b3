// SPDX-License-Identifier: MIT
#include "lane/rpc_pair.hpp"

#include <utility>

#include "framelane/descriptor/descriptor.hpp"

#include "lane/rpc_frame.hpp"

namespace framelane::lane {
namespace {

constexpr std::uint32_t kMostBurst = 256;  // several times that many slots have to fit a lane
constexpr std::size_t kMostBytes = (std::size_t{1} << 30) - kTrailerBytes;
constexpr std::uint32_t kSpareFrames = 8;  // hellos: one each time that the other end is seen to come
constexpr std::uint32_t kOwnLoans = 2;     // hellos and error answers, while the application has all of its own

Result<void> in_range(const char* name, std::uint64_t value, std::uint64_t most) {
  if (value >= 1 && value <= most) return {};
  return fail(Code::kInvalidArgument,
              std::string(name) + " is " + std::to_string(value) + "; it must be 1 to " + std::to_string(most));
}

Result<void> name_lanes(PairSettings& pair) {
  const bool both = !pair.requests.empty() && !pair.responses.empty();
  if (pair.lane.empty() != both || (!pair.lane.empty() && (!pair.requests.empty() || !pair.responses.empty()))) {
    return fail(Code::kInvalidArgument,
                "a pair of lanes has a name (lane=cam0 makes cam0-requests and cam0-responses), or else the two "
                "descriptors requests and responses");
  }
  if (both) {
    if (pair.requests != pair.responses) return {};
    return fail(Code::kInvalidArgument, "requests and responses are one lane; each needs its own");
  }
  const auto descriptor = descriptor::Descriptor::parse(pair.lane);
  if (!descriptor) return tl::unexpected(descriptor.error());
  if (descriptor->is_list() || !descriptor->addresses().front().is_path()) {
    return fail(Code::kInvalidArgument, "\"" + pair.lane +
                                            "\" can't be a pair of lanes: either end listens for one of them; give the "
                                            "two descriptors requests and responses");
  }
  pair.requests = pair.lane + "-requests";
  pair.responses = pair.lane + "-responses";
  return {};
}

}  // namespace

Result<PairSettings> checked(PairSettings settings) {
  if (auto fine = in_range("burst", settings.burst, kMostBurst); !fine) return tl::unexpected(fine.error());
  if (auto fine = in_range("max-request-size", settings.max_request_size, kMostBytes); !fine)
    return tl::unexpected(fine.error());
  if (auto fine = in_range("max-response-size", settings.max_response_size, kMostBytes); !fine)
    return tl::unexpected(fine.error());
  if (auto named = name_lanes(settings); !named) return tl::unexpected(named.error());
  return settings;
}

ProducerSettings out_settings(const PairSettings& pair, const std::string& lane, std::size_t max_size) {
  ProducerSettings out;
  out.lane = lane;
  out.burst = pair.burst + kSpareFrames;
  // Unanswered requests are bounded by the pair itself, so only somebody who listens in and falls behind can fill a
  // ring, and that one may lose frames. Nothing waits.
  out.leaky = Leaky::kDownstream;
  out.max_loans = pair.burst + kOwnLoans;
  out.max_held = pair.burst;
  out.max_consumers = 2;  // one that is going may still be there when the next one comes
  out.max_frame_size = payload_limit(max_size) + kTrailerBytes;
  out.max_side_data = 0;
  out.stamps = Stamps::kOff;
  out.spin = pair.spin;
  out.spin_budget = pair.spin_budget;
  out.psk_file = pair.psk_file;
  out.insecure = pair.insecure;
  return out;
}

ConsumerSettings in_settings(const PairSettings& pair, const std::string& lane, std::size_t max_size) {
  ConsumerSettings in;
  in.lane = lane;
  in.max_held = pair.burst;
  in.connect_timeout = kForever;  // our own waits are bounded
  in.max_frame_size = payload_limit(max_size) + kTrailerBytes;
  in.spin = pair.spin;
  in.spin_budget = pair.spin_budget;
  in.psk_file = pair.psk_file;
  return in;
}

// --- Receiver

Result<void> Receiver::connect(std::chrono::nanoseconds timeout) {
  if (!consumer_) {
    auto consumer = Consumer::open(settings_);
    if (!consumer) return tl::unexpected(consumer.error());
    const std::lock_guard lock(mutex_);
    consumer_.emplace(std::move(*consumer));
    if (poked_) consumer_->interrupt();
  }
  if (connected_) return {};
  auto connected = consumer_->connect(timeout);
  connected_ = connected.has_value();
  return connected;
}

void Receiver::drop() noexcept {
  std::optional<Consumer> dropped;  // it waits for the monitor's thread, which may want our mutex
  const std::lock_guard lock(mutex_);
  dropped.swap(consumer_);
  connected_ = false;
}

void Receiver::poke() noexcept {
  const std::lock_guard lock(mutex_);
  poked_ = true;
  if (consumer_) consumer_->interrupt();
}

void Receiver::unpoke() noexcept {
  const std::lock_guard lock(mutex_);
  poked_ = false;
  if (consumer_) consumer_->resume();
}

Result<void> Receiver::send_upstream(const format::Request& request) {
  const std::lock_guard lock(mutex_);
  if (!consumer_) return fail(Code::kNotFound);
  return consumer_->send_upstream(request);
}

}  // namespace framelane::lane
