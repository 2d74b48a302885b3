# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by quickstart: which Debian packages each part needs, and their installation.

declare -A packages=(
  [build]="g++ meson ninja-build pkg-config libexpected-dev libcli11-dev libfmt-dev nlohmann-json3-dev
           libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev libssl-dev libncurses-dev python3-dev"
  [demo]="gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gnome-user-docs"
  [test]="libgtest-dev libgmock-dev python3-gi gir1.2-gstreamer-1.0 gir1.2-gst-plugins-base-1.0 pocketsphinx-testdata
          strace gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly gstreamer1.0-libav python3-numpy"
  [all]="ccache clang-14 libclang-rt-14-dev clang-19 clang-format-14 clang-tidy-14 shellcheck spin
         g++-12-multilib g++-aarch64-linux-gnu g++-arm-linux-gnueabihf qemu-user libbenchmark-dev valgrind iproute2 cmake
         python3-mesonpy python3-pip python3-venv patchelf"
)

# missing_packages NAME...: those that are not installed.
missing_packages() {
  local installed
  installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p' | tr '\n' ' ') " || true
  local name
  for name in "$@"; do
    [[ $installed == *" $name "* ]] || printf '%s\n' "$name"
  done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "this needs root, and there is no sudo. As root: apt-get install --no-install-recommends ${wanted[*]}"
  fi
}

apt_plan() { LC_ALL=C apt-get -o Debug::NoLocking=1 --assume-no --no-remove --no-install-recommends install "$@" 2>&1; }

# Says what will be installed and how much that is, in apt's own figures. Reads the package lists first if apt can't tell.
announce_packages() {
  local plan
  say "To be installed from Debian's archive with apt-get:"
  say "  ${wanted[*]}"
  plan=$(apt_plan "${wanted[@]}") || true
  if ! grep -q 'newly installed' <<<"$plan"; then
    run_logged "Reading Debian's package lists (apt-get update)" "$logs/apt-update.log" as_root apt-get update || exit 1
    plan=$(apt_plan "${wanted[@]}") || true
  fi
  grep -q 'newly installed' <<<"$plan" || die "apt-get can't install them:
$(grep -E '^(E:|W:| )' <<<"$plan" | head -n 20)"
  local count download disk
  count=$(sed -nE 's/.* ([0-9]+) newly installed.*/\1/p' <<<"$plan")
  download=$(sed -nE 's/^Need to get ([^/]* [kMG]?B|[^/]*)(\/.*)? of archives\.$/\1/p' <<<"$plan")
  disk=$(sed -nE 's/^After this operation, (.*) of additional disk space.*/\1/p' <<<"$plan")
  say "With all that they depend on: $count packages, ${download:-nothing} to download, ${disk:-nothing more} on disk."
}

confirm() {
  if [ "$assume_yes" = yes ] || ! [ -t 0 ]; then return 0; fi
  local answer
  read -r -p "Install them? [Y/n] " answer
  [[ -z $answer || $answer == [Yy]* ]] || die "nothing was installed"
}

# ensure_packages GROUP...: installs what is missing of these groups; quick when nothing is.
ensure_packages() {
  local group
  wanted=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "This is no Debian, so nothing is installed; what is missing will show (README.md lists what is needed)."
    return 0
  fi
  for group in "$@"; do
    # shellcheck disable=SC2086 # a group is a list of words
    mapfile -t -O ${#wanted[@]} wanted < <(missing_packages ${packages[$group]})
  done
  [ ${#wanted[@]} -gt 0 ] || return 0
  announce_packages
  confirm
  run_logged "Installing" "$logs/apt-install.log" as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get \
    -o DPkg::Lock::Timeout=120 --yes --no-remove --no-install-recommends install "${wanted[@]}" || exit 1
}
