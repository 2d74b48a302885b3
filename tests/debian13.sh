#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds Framelane in a Debian 13 of its own, with that release's compiler and GStreamer, and runs the element tests
# there. Not part of `quickstart test --all`: it downloads a system.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
assume_yes=yes
. .ci/steps/common.sh
. .ci/steps/packages.sh

usage() {
  cat <<'TXT'
usage: tests/debian13.sh [--root DIR] [SUITE..]

Makes a Debian 13 with debootstrap (about 2 GB, from the mirror in $DEBIAN_MIRROR or http://deb.debian.org/debian),
builds the working tree in it and runs the tests of the suites (gst). Needs root, and the package debootstrap.

  --root DIR   uses the system in DIR, or makes it there and keeps it; else it is a temporary one that is removed
TXT
}

root=''
suites=()
while [ $# -gt 0 ]; do
  case $1 in
    --root)
      [ $# -ge 2 ] || die "--root needs a directory"
      root=$2
      shift
      ;;
    --help | -h) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) suites+=("$1") ;;
  esac
  shift
done
[ ${#suites[@]} -gt 0 ] || suites=(gst)
[ "$(id -u)" -eq 0 ] || die "this needs root, for debootstrap and chroot"
command -v debootstrap >/dev/null || die "there is no debootstrap; install it with: apt-get install debootstrap"

if [ -z "$root" ]; then
  root=$(mktemp -d "${TMPDIR:-/var/tmp}/framelane-debian13-XXXXXX")
  trap 'rm -rf --one-file-system "$root"' EXIT
fi

# inside SECONDS COMMAND...: in the system, with mounts and processes that end with the command, whatever it leaves.
inside() {
  local seconds=$1
  shift
  # shellcheck disable=SC2016 # the inner shell's variables
  timeout --kill-after=10 "$seconds" unshare --mount --pid --fork --kill-child sh -c '
    root=$1 && shift && mount -t proc proc "$root/proc" &&
    exec chroot "$root" env -i LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' sh "$root" "$@"
}

bootstrap() {
  timeout 1800 debootstrap --variant=minbase trixie "$root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" &&
    touch "$root/framelane-system"
}

install_packages() {
  # shellcheck disable=SC2086 # lists of words
  inside 1800 apt-get --yes --no-install-recommends install ${packages[build]} ${packages[demo]} ${packages[test]} \
    gstreamer1.0-plugins-ugly gstreamer1.0-libav
}

# The build goes, too: a file that changed before the last build would seem to be in it.
copy_sources() {
  rm -rf "$root/framelane" "$root/build"
  mkdir "$root/framelane"
  git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - |
    tar -xf - -C "$root/framelane"
}

build_inside() {
  inside 5400 sh -c 'cd /framelane && meson setup /build && ninja -C /build'
}

test_inside() {
  local options=() suite
  for suite in "${suites[@]}"; do options+=(--suite "$suite"); done
  inside 3600 meson test -C /build --no-rebuild --print-errorlogs "${options[@]}"
}

[ -f "$root/framelane-system" ] || run_logged "Making a Debian 13" "$logs/debian13-system.log" bootstrap
run_logged "Installing what the build and the tests need" "$logs/debian13-packages.log" install_packages
run_logged "Copying the sources" "$logs/debian13-sources.log" copy_sources
run_logged "Building" "$logs/debian13-build.log" build_inside
say "GStreamer $(inside 60 pkg-config --modversion gstreamer-1.0), $(inside 60 g++ -dumpfullversion | sed 's/^/g++ /')"
run_logged "Testing" "$logs/debian13-test.log" test_inside
grep -E '^(Ok|Fail|Skipped|Timeout): ' "$logs/debian13-test.log"
