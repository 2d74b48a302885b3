// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "framelane/base/result.hpp"
#include "framelane/lane/settings.hpp"

#include "cli/frame_file.hpp"

// Options that subcommands share. A type name of words with | between them is what shell completion offers.
namespace framelane::cli {

/// A word of a map for a value, "--NAME a|b|c"; the help's text ends with what it is when it isn't given.
template <class Value>
CLI::Option* add_choice(CLI::App& command, const std::string& name, Value& value,
                        const std::map<std::string, Value>& words, const std::string& type,
                        const std::string& description) {
  const auto parse = [&value, words](const CLI::results_t& given) {
    const auto found = words.find(given.at(0));
    if (found == words.end()) return false;
    value = found->second;
    return true;
  };
  return command.add_option(name, parse, description)
      ->type_name(type)
      ->check(CLI::IsMember(words).description(""))
      ->expected(1);
}

/// Seconds with decimals; with `or_none`, also "none" for kForever.
CLI::Option* add_duration(CLI::App& command, const std::string& name, std::chrono::nanoseconds& value,
                          const std::string& description, bool or_none);

/// --format; nothing for "auto".
void add_format_option(CLI::App& command, std::optional<FileFormat>& format, const std::string& description);

/// The lane and what both ends of it need: transport, spin, psk-file, max-frame-size.
void add_ends_options(CLI::App& command, ProducerSettings& settings);
void add_ends_options(CLI::App& command, ConsumerSettings& settings);
/// Whether the file of --psk-file can be read, also where the lane doesn't look at it; fine when there is none.
/// Errors: kInvalidArgument.
[[nodiscard]] Result<void> check_key_file(const std::string& path);
/// burst, leaky, full-timeout, stall-timeout, history, max-consumers, insecure.
void add_producer_options(CLI::App& command, ProducerSettings& settings);

}  // namespace framelane::cli
