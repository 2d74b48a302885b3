// SPDX-License-Identifier: MIT
#include "cli/lane_options.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include <unistd.h>

#include "base/text.hpp"
#include "cli/bench_setup.hpp"

namespace framelane::cli {
namespace {

const std::map<std::string, Transport> kTransports{
    {"auto", Transport::kAuto}, {"shm", Transport::kShm}, {"uds", Transport::kUds}, {"tcp", Transport::kTcp}};
const std::map<std::string, Leaky> kLeaky{
    {"no", Leaky::kNo}, {"upstream", Leaky::kUpstream}, {"downstream", Leaky::kDownstream}};

const std::map<std::string, std::optional<FileFormat>> kFormats{{"auto", std::nullopt},
                                                                {"raw", FileFormat::kRaw},
                                                                {"y4m", FileFormat::kY4m},
                                                                {"wav", FileFormat::kWav},
                                                                {"npy", FileFormat::kNpy}};

constexpr double kMostSeconds = 1e6;

// Nothing for text that is none.
bool parse_seconds(const std::string& text, bool or_none, std::chrono::nanoseconds& value) {
  if (or_none && text == "none") {
    value = kForever;
    return true;
  }
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(seconds) || seconds < 0 || seconds > kMostSeconds) return false;
  value = std::chrono::nanoseconds(std::llround(seconds * 1e9));
  return true;
}

template <class Settings>
void add_shared(CLI::App& command, Settings& settings) {
  command.add_option("LANE", settings.lane, "Name or descriptor of the lane")->required()->type_name("");
  add_choice(command, "--transport", settings.transport, kTransports, "auto|shm|uds|tcp",
             "Only this one of those that the descriptor allows (auto)");
  add_spin_option(command, settings.spin);
  command.add_option("--psk-file", settings.psk_file, "TCP: TLS 1.3 with the key in this file")->type_name("FILE");
  command.add_option("--max-frame-size", settings.max_frame_size, "Bytes (268435456)")
      ->type_name("B")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31));
}

}  // namespace

CLI::Option* add_duration(CLI::App& command, const std::string& name, std::chrono::nanoseconds& value,
                          const std::string& description, bool or_none) {
  const auto parse = [&value, or_none](const CLI::results_t& words) {
    return parse_seconds(words.at(0), or_none, value);
  };
  return command.add_option(name, parse, description)->type_name(or_none ? "S|none" : "S")->expected(1);
}

void add_format_option(CLI::App& command, std::optional<FileFormat>& format, const std::string& description) {
  add_choice(command, "--format", format, kFormats, "auto|raw|y4m|wav|npy", description);
}

void add_ends_options(CLI::App& command, ProducerSettings& settings) { add_shared(command, settings); }
void add_ends_options(CLI::App& command, ConsumerSettings& settings) { add_shared(command, settings); }

Result<void> check_key_file(const std::string& path) {
  if (path.empty() || access(path.c_str(), R_OK) == 0) return {};
  const int error = errno;
  return fail(Code::kInvalidArgument,
              "the file of --psk-file, " + base::quoted(path) + ", can't be read: " + base::system_words(error));
}

void add_producer_options(CLI::App& command, ProducerSettings& settings) {
  command.add_option("--burst", settings.burst, "Frames absorbed while a consumer pauses (8)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  add_choice(command, "--leaky", settings.leaky, kLeaky, "no|upstream|downstream",
             "When full: wait, drop the new frame, or skip (no)");
  add_duration(command, "--full-timeout", settings.full_timeout, "With --leaky no: drops after this wait (none)", true);
  add_duration(command, "--stall-timeout", settings.stall_timeout, "Then a consumer that stands still is left (none)",
               true);
  command.add_option("--history", settings.history, "Old frames that a late consumer still gets (0)")
      ->type_name("N")
      ->check(CLI::Range(0, 1024));
  command.add_option("--max-consumers", settings.max_consumers, "At most 32 (32)")
      ->type_name("N")
      ->check(CLI::Range(1, 32));
  command.add_flag("--insecure", settings.insecure, "TCP without a key beyond this host: anybody can read it");
}

}  // namespace framelane::cli
