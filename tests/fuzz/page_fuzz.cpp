// SPDX-License-Identifier: MIT
// A consumer that writes anything anywhere into its page: the producer publishes on, a second consumer gets every
// frame, whole and in order, nobody else is blamed, and when the liar is gone all slots are back.
#include <cstddef>
#include <cstdint>

#include "fuzz/input.hpp"
#include "fuzz/property.hpp"
#include "ring/harness.hpp"

namespace {

using namespace framelane;
using namespace framelane::ring;
using fuzz::Input;
using fuzz::require;

/// The frames from `next` on, as far as they are there.
void take_whole(ring::testing::TestConsumer& consumer, std::uint64_t& next) {
  while (const auto taken = consumer.take()) {
    require(taken->index == next && taken->skipped == 0 && testing::intact(*taken, next));
    ++next;
    if (!taken->is_inline) consumer.reader().release(taken->slot);
  }
}

void act(Input& input, ring::testing::Lane& lane, ring::testing::TestConsumer& liar) {
  const auto what = input.number<std::uint8_t>();
  switch (what % 5) {
    case 0:
      liar.page().cursor.store(liar.page().cursor.load() + static_cast<std::uint64_t>(input.number<std::int8_t>()));
      break;
    case 1:
      liar.page().holds[input.number<std::uint8_t>() % std::size(liar.page().holds)].store(
          input.number<std::uint32_t>());
      break;
    case 2:
      fuzz::scribble(input, &liar.page(), sizeof(ConsumerPage));
      break;
    case 3:
      lane.send_event(what);
      break;
    default:
      lane.reclaim();
  }
}

void look(ring::testing::Lane& lane, const ring::testing::TestConsumer& liar) {
  const auto broken = lane.control.broken();
  require(broken.size() <= 1);
  if (!broken.empty()) require(broken[0].first == liar.id() && !broken[0].second.empty());
  lane.writer->inspect([&](const auto& links, const SlotPool&, std::uint32_t) {
    for (const auto& link : links) require(lane.writer->lag(*link) <= lane.sent());
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ring::testing::Lane lane({.sizes = {.burst = 4}, .when_full = WhenFull::kDropNew});
  ring::testing::TestConsumer honest(lane);
  ring::testing::TestConsumer liar(lane);
  Input input(data, size);
  std::uint64_t next = 0;
  while (!input.empty()) {
    const auto how = input.number<std::uint8_t>();
    static_cast<void>(how % 4 == 0 ? lane.send_inline() : lane.send_slot());  // what a full lane drops isn't sent
    act(input, lane, liar);
    take_whole(honest, next);
    require(next == lane.sent());
  }
  look(lane, liar);
  liar.leave();
  for (int i = 0; i < 32; ++i) {  // the newest frames stay in the ring: let them be some without slots
    require(lane.send_inline());
    take_whole(honest, next);
  }
  require(next == lane.sent());
  const auto [free, in_use] = lane.free_slots();
  require(free == in_use);
  return 0;
}
