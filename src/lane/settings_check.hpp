// SPDX-License-Identifier: MIT
#pragma once

#include "framelane/base/result.hpp"
#include "framelane/lane/settings.hpp"

#include "ring/spinner.hpp"
#include "ring/writer.hpp"

namespace framelane::lane {

/// Errors: kInvalidArgument (names the setting, its limits and the value).
[[nodiscard]] Result<void> check(const ProducerSettings& settings);
[[nodiscard]] Result<void> check(const ConsumerSettings& settings);

[[nodiscard]] ring::SpinKind spin_kind(Spin spin) noexcept;
[[nodiscard]] ring::WhenFull when_full(Leaky leaky) noexcept;
/// `name` is for the memory's names in /proc.
[[nodiscard]] ring::WriterSettings writer_settings(const ProducerSettings& settings, std::string name);

}  // namespace framelane::lane
