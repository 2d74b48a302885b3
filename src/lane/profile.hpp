// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framelane/lane/settings.hpp"

// Which of the streams was measured to be faster on this host: what `framelane bench transports` keeps for consumers.

namespace framelane::lane {

/// The faster one of kUds and kTcp by a profile's text, one line of words: "framelane-transports 1 HOST uds tcp", or
/// "tcp uds". Empty: of another host or version, or broken.
[[nodiscard]] std::optional<Transport> faster_stream_in(std::string_view text, std::string_view host);

/// The same by transports.profile in $XDG_CACHE_HOME/framelane, else ~/.cache/framelane. Whatever is wrong with that
/// file (missing, another user's, others may write it, no plain file) means that there is no profile. Reads the file.
[[nodiscard]] std::optional<Transport> faster_stream();

}  // namespace framelane::lane
