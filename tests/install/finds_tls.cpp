// SPDX-License-Identifier: MIT
// Asks the installed core for its TLS library, as a lane with a psk-file would. Not something for applications: it uses
// a private header.
#include <cstdio>

#include "transport/tls_library.hpp"

int main() {
  const auto library = framelane::transport::TlsLibrary::get();
  std::printf("%s\n", library ? "found" : library.error().text.c_str());
  return library ? 0 : 1;
}
