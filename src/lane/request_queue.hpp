// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "framelane/format/event.hpp"
#include "framelane/lane/producer.hpp"

#include "lane/rate_limit.hpp"

namespace framelane::lane {

/// Requests of one consumer that the application hasn't taken yet. Bounded, whatever the consumer sends: one wish for a
/// key unit, which all of them become; the last report of quality; a few of the others, and no more.
///
/// Threads: one at a time.
class RequestQueue {
 public:
  static constexpr std::size_t kMostCustom = kRequestsAtOnce;  // what a consumer may send in one piece is kept

  void push(format::Request request) {
    using format::RequestType;
    const auto same = std::find_if(waiting_.begin(), waiting_.end(),
                                   [&](const format::Request& other) { return other.type == request.type; });
    if (request.type == RequestType::kCustom) {
      if (customs_ == kMostCustom) return;
      ++customs_;
      waiting_.push_back(std::move(request));
    } else if (same == waiting_.end()) {
      waiting_.push_back(std::move(request));
    } else if (request.type == RequestType::kQos) {
      *same = std::move(request);
    } else {
      format::merge_key_unit(*same, request);
    }
  }

  /// Moves all of them, in their order, to the end of `to`.
  void take(std::uint32_t consumer, std::vector<ConsumerRequest>& to) {
    for (format::Request& request : waiting_) to.push_back({consumer, std::move(request)});
    waiting_.clear();
    customs_ = 0;
  }

 private:
  std::deque<format::Request> waiting_;
  std::size_t customs_ = 0;
};

}  // namespace framelane::lane
