// SPDX-License-Identifier: MIT
// An application outside the tree: compiled, linked and run against the installed files by check_install.py.
#include "framelane/lane/consumer.hpp"

#include <cstdio>

#include "framelane/lane/producer.hpp"

int main() {
  const auto producer = framelane::Producer::open({.lane = "no such name"});
  if (producer || producer.error().code != framelane::Code::kInvalidArgument) return 1;
  std::printf("%s\n", producer.error().text.c_str());
  return 0;
}
