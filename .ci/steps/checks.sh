# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by quickstart: what `test --all` does beyond the plain tests.

# ccache, where it is, makes the second run of five builds a matter of seconds.
compiler() { if command -v ccache >/dev/null; then printf 'ccache %s' "$1"; else printf '%s' "$1"; fi; }

# sources PATTERN...: files of the project, also in a tree without git.
sources() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@"
  else
    local pattern
    for pattern in "$@"; do find . -name "$pattern" -not -path './build*' -not -path './subprojects/*/*' -type f; done
  fi
}

check_format() {
  local files long
  mapfile -t files < <(sources '*.cpp' '*.hpp' '*.h')
  clang-format-14 --dry-run -Werror "${files[@]}" || return 1
  mapfile -t -O ${#files[@]} files < <(sources '*.py')
  long=$(LC_ALL=C.UTF-8 grep -nE '^.{121,}' "${files[@]}") || return 0
  printf 'longer than 120 columns:\n%s\n' "$long"
  return 1
}

check_scripts() {
  local files
  mapfile -t files < <(sources '*.sh' | grep -v '^.ci/steps/')  # those are parts of quickstart
  shellcheck --external-sources --check-sourced quickstart .ci/run "${files[@]}"
}

# clang-tidy over the library's own sources, with the checks of .clang-tidy.
check_lint() {
  local files
  mapfile -t files < <(sources 'src/*.cpp' | grep -v '^src/cli/')
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 2 clang-tidy-14 --quiet --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' -p build
}

# For trees whose tests look for errors, not for speed: line numbers are all that a report needs.
only_library=(-Dplugins=disabled -Dcli=disabled -Dbench=disabled -Dpython=disabled -Doptimization=1 -Ddebug=false)

# Both clangs read every file. That they can also build and link them, build-fuzz shows for the library.
other_compilers() {
  local version
  for version in 14 19; do
    if CC=clang-$version CXX=clang++-$version configure "build-clang$version" -Dwerror=true -Ddebug=false; then
      check "Reading with clang $version, -Werror" "$logs/clang$version.log" python3 .ci/steps/syntax.py "build-clang$version"
    else
      record 0 1 0 "Configuring for clang $version"
    fi
  done
}

sanitizers() {
  # An old sanitizer runtime can't bear the kernel's widest address randomisation: run without, where that is allowed.
  local run_under=()
  if setarch -R true 2>/dev/null; then run_under=(setarch -R); fi
  if CXX=$(compiler g++) build_tree build-tsan "Building with the thread sanitizer" -Db_sanitize=thread \
    -Dcpp_args=-g1 "${only_library[@]}"; then
    TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
      test_tree build-tsan tsan "Tests under the thread sanitizer" --suite unit --suite stress --timeout-multiplier 5
  fi
  if CXX=$(compiler g++) build_tree build-asan "Building with the address and undefined-behaviour sanitizers" \
    -Db_sanitize=address,undefined "-Dcpp_args=-g1 -fno-sanitize-recover=undefined" "${only_library[@]}"; then
    test_tree build-asan asan "Tests under the address and undefined-behaviour sanitizers" --suite unit --suite stress \
      --timeout-multiplier 3
  fi
}

# One layout for all: an emulated Arm process at one end of a lane, one of this machine at the other, and in turn.
check_lanes_to() {
  local arm=$1 emulator=$2 expected=examples/05_plain_c/expected.txt
  local there=build-$arm/examples here=build/examples
  # shellcheck disable=SC2086 # a command with its arguments
  python3 examples/run_together.py $expected $emulator "$there/plain_consumer" -- "$here/plain_producer" &&
    python3 examples/run_together.py $expected "$here/plain_consumer" -- $emulator "$there/plain_producer"
}

# The core for Arm, 64 and 32 bit: its warnings are those of another size_t and of stricter alignment.
arm_builds() {
  local arm
  local -A emulator=([aarch64]="qemu-aarch64 -L /usr/aarch64-linux-gnu" [armhf]="qemu-arm -L /usr/arm-linux-gnueabihf")
  for arm in aarch64 armhf; do
    if build_tree "build-$arm" "Building the core for $arm, -Werror" --cross-file ".ci/cross/$arm.ini" \
      -Dtests=disabled -Dplugins=disabled -Dcli=disabled -Dbench=disabled -Dtls=disabled \
      -Dpython=disabled -Dwerror=true -Doptimization=1 -Ddebug=false; then
      record 1 0 0 "$arm build"
      check "Lanes between this machine and $arm" "$logs/lanes-$arm.log" check_lanes_to "$arm" "${emulator[$arm]}"
    fi
  done
}

# Inputs that nobody thought of, for some seconds each.
fuzzers() {
  if CXX=$(compiler clang++-14) build_tree build-fuzz "Building the fuzz targets" -Dfuzz=true -Dtests=disabled \
    -Dexamples=false -Db_sanitize=address,undefined -Db_lundef=false \
    "-Dcpp_args=-g1 -fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined" "${only_library[@]}"; then
    test_tree build-fuzz fuzz "Fuzz targets" --suite fuzz
  fi
}

test_everything() {
  check "Format (clang-format 14)" "$logs/format.log" check_format
  check "Scripts (shellcheck)" "$logs/shellcheck.log" check_scripts
  if build_tree build "Building with g++, -Werror" -Dwerror=true -Ddebug=false; then
    check "Lint (clang-tidy 14)" "$logs/lint.log" check_lint
    test_tree build quick "Tests" --no-suite long --no-suite model
    test_tree build model "Model (spin)" --suite model
    test_tree build long "Long tests" --suite long
  fi
  arm_builds
  other_compilers
  sanitizers
  fuzzers
}
