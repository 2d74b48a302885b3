// SPDX-License-Identifier: MIT
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "support.hpp"
#include "transport/tls_library.hpp"

namespace framelane::transport {
namespace {

void expect_unsupported(const std::string& file, const std::string& part) {
  const auto library = TlsLibrary::load(file);
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, Code::kUnsupported);
  EXPECT_NE(library.error().text.find(part), std::string::npos) << library.error().text;
  EXPECT_NE(library.error().text.find("install libframelane-tls.so.0 beside libframelane.so"), std::string::npos);
  EXPECT_NE(library.error().text.find("OpenSSL 3 (Debian: libssl3)"), std::string::npos);
}

TEST(TlsLibrary, SaysWhatToInstallWhenItIsMissing) {
  expect_unsupported("libframelane-no-such-thing.so.0", "cannot load libframelane-no-such-thing.so.0");
  expect_unsupported("/dev/null", "cannot load /dev/null");
}

TEST(TlsLibrary, RefusesAnotherLibrary) {
  expect_unsupported("libc.so.6", "'libc.so.6' isn't Framelane's TLS library");
}

TEST(TlsLibrary, RefusesAnotherVersion) {
  expect_unsupported(OTHER_VERSION_LIBRARY, "is of version 99.0, and this is ");
}

#ifdef FRAMELANE_WITHOUT_TLS

TEST(TlsLibrary, ABuildWithoutItSaysSo) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const base::UniqueFd other(ends[1]);
  const std::vector<std::byte> key(32);
  const auto stream = make_secure(base::UniqueFd(ends[0]), TlsSide::kClient, *Psk::create("lane", key));
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, Code::kUnsupported);
  EXPECT_NE(stream.error().text.find("this build has no TLS, which a psk-file needs"), std::string::npos)
      << stream.error().text;
}

#else

TEST(TlsLibrary, IsLoadedOnce) {
  const auto one = TlsLibrary::get();
  ASSERT_TRUE(one) << one.error().text;
  EXPECT_EQ(*one, *TlsLibrary::get());
}

#endif

}  // namespace
}  // namespace framelane::transport
