// SPDX-License-Identifier: MIT
// In place of bench_gst_ends.cpp and bench_gst_elements.cpp where GStreamer isn't built against.
#include "cli/bench_gst.hpp"
#include "cli/bench_setup.hpp"

namespace framelane::cli::bench_gst {

int probe(const std::string&, Probe&) {
  return report_failure("this framelane was built without GStreamer (Meson option plugins)");
}
int produce(const Job&, Record&) { return 1; }
int consume(const Job&, Record&, std::span<std::uint32_t>) { return 1; }
int floor(const Job&, Record&, std::span<std::uint32_t>) { return 1; }

}  // namespace framelane::cli::bench_gst
