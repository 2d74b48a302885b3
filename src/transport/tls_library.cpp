// SPDX-License-Identifier: MIT
#include "transport/tls_library.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include <dlfcn.h>
#include <unistd.h>

#include "base/text.hpp"

namespace framelane::transport {
namespace {

[[maybe_unused]] constexpr char kName[] = "libframelane-tls.so.0";
constexpr char kRemedy[] =
    "; a psk-file needs it: install libframelane-tls.so.0 beside libframelane.so (meson setup -Dtls=enabled), and "
    "OpenSSL 3 (Debian: libssl3)";

#ifndef FRAMELANE_WITHOUT_TLS

/// The library beside the one (or the program) that holds this code; empty when there is none. A relative path doesn't
/// count: the working directory may be another one by now.
std::string beside_us() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&beside_us), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string own = info.dli_fname;
  if (own.empty() || own.front() != '/') return {};
  std::string file = own.substr(0, own.rfind('/') + 1) + kName;
  return access(file.c_str(), F_OK) == 0 ? file : std::string();
}

#endif

Result<TlsLibrary> find_library() {
#ifdef FRAMELANE_WITHOUT_TLS
  return fail(Code::kUnsupported,
              "this build has no TLS, which a psk-file needs: build with OpenSSL 3 (Debian: libssl-dev) and "
              "meson setup -Dtls=enabled");
#else
  const std::string beside = beside_us();
  return TlsLibrary::load(beside.empty() ? kName : beside);
#endif
}

}  // namespace

Result<TlsLibrary> TlsLibrary::load(const std::string& file) {
  // Never closed: OpenSSL leaves callbacks for the process's end. Local: an application may have another OpenSSL.
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const words = dlerror();
    return fail(Code::kUnsupported, "cannot load " + base::printable(words != nullptr ? words : file, 400) + kRemedy);
  }
  const auto* const version = static_cast<const char*>(dlsym(handle, kTlsVersionSymbol));
  const auto open = reinterpret_cast<TlsOpen>(dlsym(handle, kTlsOpenSymbol));
  if (version == nullptr || open == nullptr) {
    return fail(Code::kUnsupported, base::quoted(file) + " isn't Framelane's TLS library" + kRemedy);
  }
  if (std::string_view(version) != FRAMELANE_VERSION) {
    return fail(Code::kUnsupported, base::quoted(file) + " is of version " + base::printable(version) +
                                        ", and this is " FRAMELANE_VERSION + kRemedy);
  }
  return TlsLibrary(open);
}

Result<const TlsLibrary*> TlsLibrary::get() {
  static std::mutex mutex;
  static std::optional<TlsLibrary> loaded;
  const std::lock_guard lock(mutex);
  if (!loaded) {
    auto found = find_library();
    if (!found) return tl::unexpected(std::move(found.error()));
    loaded = *found;
  }
  return &*loaded;
}

Result<std::unique_ptr<TlsSession>> TlsLibrary::open(const TlsSettings& settings) const {
  TlsFailure why;
  std::unique_ptr<TlsSession> session(open_(&settings, &why));
  if (session) return session;
  if (why.text_untrusted[0] == '\0') return fail(Code::kNoMemory, "cannot start TLS: memory is short");
  return fail(Code::kSystem, "OpenSSL can't do TLS 1.3 with a pre-shared key: " + base::printable(why.text_untrusted) +
                                 "; look at its configuration (openssl version -d)");
}

}  // namespace framelane::transport
