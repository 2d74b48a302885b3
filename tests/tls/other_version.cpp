// SPDX-License-Identifier: MIT
// What a TLS library of another release looks like to the core.
extern "C" {
extern const char framelane_tls_version[];
const char framelane_tls_version[] = "99.0";
void framelane_tls_open();
void framelane_tls_open() {}
}
