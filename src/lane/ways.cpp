// SPDX-License-Identifier: MIT
#include "lane/ways.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace framelane {

std::string_view to_string(Transport transport) noexcept {
  switch (transport) {
    case Transport::kShm:
      return "shm";
    case Transport::kUds:
      return "uds";
    case Transport::kTcp:
      return "tcp";
    case Transport::kAuto:
      break;
  }
  return "auto";
}

}  // namespace framelane

namespace framelane::lane {
namespace {

using descriptor::Address;
using Kind = descriptor::Transport;

bool allows(Transport wanted, Transport transport) noexcept {
  return wanted == Transport::kAuto || wanted == transport;
}

tl::unexpected<Error> nothing_for(const descriptor::Descriptor& descriptor, Transport wanted) {
  const std::string words =
      "\"" + descriptor.to_string() + "\" has no address for transport " + std::string(to_string(wanted)) + "; ";
  return fail(Code::kInvalidArgument,
              words + (wanted == Transport::kTcp ? "give one like lane.tcp://127.0.0.1:7411/" + descriptor.name()
                                                 : "give a name like cam0"));
}

/// Directory of an address in the file system.
std::string directory_of(const Address& address) {
  return address.directory.empty() ? descriptor::runtime_dir() : address.directory;
}

Result<void> check_kinds(const descriptor::Descriptor& descriptor) {
  for (const Address& address : descriptor.addresses()) {
    if (address.transport == Kind::kPipe) {
      return fail(Code::kUnsupported, "\"" + descriptor.to_string() +
                                          "\": named pipes are Windows' own; here give a name like cam0, or an address "
                                          "like lane.uds:///run/cams/cam0 or lane.tcp://192.0.2.7:7411/cam0");
    }
  }
  return {};
}

}  // namespace

Result<std::string> stream_path(const std::string& socket_path) {
  std::string path = socket_path + ".stream";
  if (path.size() <= descriptor::kMaxSocketPath) return path;
  return fail(Code::kTooLarge, "the socket's path " + base::quoted(path) + " has " + std::to_string(path.size()) +
                                   " bytes, and the system allows " + std::to_string(descriptor::kMaxSocketPath) +
                                   "; use a shorter directory or name");
}

// --- consumers

Result<std::vector<Way>> consumer_ways(const descriptor::Descriptor& descriptor, Transport wanted) {
  if (auto fine = check_kinds(descriptor); !fine) return tl::unexpected(std::move(fine.error()));
  std::vector<Way> ways;
  for (const Address& address : descriptor.addresses()) {
    if (address.transport == Kind::kTcp) {
      if (allows(wanted, Transport::kTcp))
        ways.push_back({Transport::kTcp, address.name, {}, address.host, address.port});
      continue;
    }
    auto path = address.socket_path();
    if (!path) return tl::unexpected(std::move(path.error()));
    const bool shm = address.transport != Kind::kUds && allows(wanted, Transport::kShm);
    const bool uds = address.transport != Kind::kShm && allows(wanted, Transport::kUds);
    if (shm) ways.push_back({Transport::kShm, address.name, *path, {}, 0});
    if (!uds) continue;
    auto stream = stream_path(*path);
    if (!stream && shm) continue;  // a fallback that isn't to be had
    if (!stream) return tl::unexpected(std::move(stream.error()));
    ways.push_back({Transport::kUds, address.name, std::move(*stream), {}, 0, shm});
  }
  if (ways.empty()) return nothing_for(descriptor, wanted);
  return ways;
}

// --- producers

namespace {

/// Adds an address in the file system.
Result<void> add_path(const descriptor::Descriptor& descriptor, const Address& address, Transport wanted,
                      Place& place) {
  const bool shm = address.transport != Kind::kUds && allows(wanted, Transport::kShm);
  const bool uds = address.transport != Kind::kShm && allows(wanted, Transport::kUds);
  if (!shm && !uds) return {};
  auto path = address.socket_path();
  if (!path) return tl::unexpected(std::move(path.error()));
  if (place.has_files && place.directory != directory_of(address)) {
    return fail(Code::kInvalidArgument,
                "\"" + descriptor.to_string() + "\" names two directories; a producer has its files in one");
  }
  place.has_files = true;
  place.directory = directory_of(address);
  place.shm = place.shm || shm;
  if (!uds || place.uds) return {};
  const auto stream = stream_path(*path);
  if (!stream && !shm) return tl::unexpected(stream.error());
  place.uds = stream.has_value();
  return {};
}

}  // namespace

Result<Place> producer_place(const descriptor::Descriptor& descriptor, Transport wanted) {
  if (auto fine = check_kinds(descriptor); !fine) return tl::unexpected(std::move(fine.error()));
  Place place;
  place.lane = descriptor.name();
  for (const Address& address : descriptor.addresses()) {
    if (address.name != place.lane) {
      return fail(Code::kInvalidArgument, "\"" + descriptor.to_string() + "\" names the lanes " + place.lane + " and " +
                                              address.name + "; a producer has one lane");
    }
    if (address.transport == Kind::kTcp) {
      if (allows(wanted, Transport::kTcp)) place.tcp.push_back({address.host, address.port});
    } else if (auto added = add_path(descriptor, address, wanted, place); !added) {
      return tl::unexpected(std::move(added.error()));
    }
  }
  if (!place.has_files && place.tcp.empty()) return nothing_for(descriptor, wanted);
  return place;
}

std::string Place::to_string() const {
  std::string text;
  const auto add = [&](const Result<descriptor::Descriptor>& one) {
    if (one) text += (text.empty() ? "" : ",") + one->to_string();
  };
  if (shm) add(descriptor::Descriptor::shm(directory, lane));
  if (uds) add(descriptor::Descriptor::uds(directory, lane));
  for (const Tcp& address : tcp) add(descriptor::Descriptor::tcp(address.host, address.port, lane));
  return text;
}

std::string Place::transports() const {
  std::vector<std::string> words;
  if (shm) words.emplace_back("shm");
  if (uds) words.emplace_back("uds");
  if (!tcp.empty()) words.emplace_back("tcp");
  std::string text = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) text += (i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

}  // namespace framelane::lane
