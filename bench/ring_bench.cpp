// SPDX-License-Identifier: MIT
// What single calls cost, in one process and on one thread: no cache line moves to another CPU, so these are lower
// bounds, good for finding what a change made dearer. What a frame takes between processes: `framelane bench`.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <benchmark/benchmark.h>

#include "framelane/lane/consumer.hpp"
#include "framelane/lane/producer.hpp"

#include "measure/histogram.hpp"

namespace framelane {
namespace {

// A lane whose both ends are here.
struct Loop {
  static std::optional<Loop> open(std::size_t size, Stamps stamps) {
    ProducerSettings out;
    out.lane = "bench";
    out.max_consumers = 1;
    out.stamps = stamps;
    auto producer = Producer::open(std::move(out));
    if (!producer || !producer->reserve(size)) return std::nullopt;
    ConsumerSettings in;
    in.lane = "bench";
    auto consumer = Consumer::open(std::move(in));
    if (!consumer || !consumer->connect(std::chrono::seconds(5))) return std::nullopt;
    return Loop{std::move(*producer), std::move(*consumer)};
  }

  Producer producer;
  Consumer consumer;
};

void loan_discard(benchmark::State& state) {
  auto loop = Loop::open(static_cast<std::size_t>(state.range(0)), Stamps::kOff);
  if (!loop) return state.SkipWithError("cannot open a lane");
  for (auto _ : state) {
    auto loan = loop->producer.loan(static_cast<std::size_t>(state.range(0)));
    if (!loan) return state.SkipWithError("no loan");
    benchmark::DoNotOptimize(loan->data());
    loan->discard();
  }
}

// loan, write the first 8 bytes, publish, take, read them, release.
void publish_take(benchmark::State& state, Stamps stamps, bool with_info) {
  const auto size = static_cast<std::size_t>(state.range(0));
  auto loop = Loop::open(size, stamps);
  if (!loop) return state.SkipWithError("cannot open a lane");
  format::FrameInfo info;
  if (with_info) info.pts = 0;
  for (auto _ : state) {
    auto loan = loop->producer.loan(size);
    if (!loan) return state.SkipWithError("no loan");
    std::memset(loan->data(), 1, 8);
    if (!loop->producer.publish(*loan, size, info)) return state.SkipWithError("not published");
    auto frame = loop->consumer.try_take();
    if (!frame || !frame->has_value()) return state.SkipWithError("not taken");
    benchmark::DoNotOptimize((*frame)->data()[0]);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

void take_nothing(benchmark::State& state) {
  auto loop = Loop::open(32, Stamps::kOff);
  if (!loop) return state.SkipWithError("cannot open a lane");
  for (auto _ : state) {
    auto frame = loop->consumer.try_take();
    benchmark::DoNotOptimize(frame);
  }
}

void histogram_record(benchmark::State& state) {
  const auto cells = std::make_unique<measure::HistogramCells>();
  std::uint64_t ns = 12345;
  for (auto _ : state) {
    measure::record(*cells, ns);
    ns = (ns * 6364136223846793005 + 1442695040888963407) >> 44;  // up to 1 ms, spread over the buckets
  }
}

void histogram_summarize(benchmark::State& state) {
  const auto cells = std::make_unique<measure::HistogramCells>();
  for (std::uint64_t ns = 1; ns < 1'000'000; ns += 97) measure::record(*cells, ns);
  for (auto _ : state) benchmark::DoNotOptimize(measure::summarize(*cells));
}

BENCHMARK(loan_discard)->Arg(32)->Arg(3'110'400);
BENCHMARK_CAPTURE(publish_take, bare, Stamps::kOff, false)->Arg(32)->Arg(1024)->Arg(3'110'400);
BENCHMARK_CAPTURE(publish_take, stamped, Stamps::kOn, false)->Arg(32)->Arg(3'110'400);
BENCHMARK_CAPTURE(publish_take, with_pts, Stamps::kOff, true)->Arg(32)->Arg(3'110'400);
BENCHMARK(take_nothing);
BENCHMARK(histogram_record);
BENCHMARK(histogram_summarize);

// Lanes of a bench meet no others: they live in a directory of their own.
class OwnDirectory {
 public:
  OwnDirectory() : path_("/tmp/framelane-bench-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
    ::setenv("FRAMELANE_DIR", path_.c_str(), 1);
  }
  ~OwnDirectory() { std::filesystem::remove_all(path_); }

 private:
  std::string path_;
};

}  // namespace
}  // namespace framelane

int main(int argc, char** argv) {
  const framelane::OwnDirectory directory;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
