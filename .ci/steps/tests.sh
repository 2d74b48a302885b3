# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by quickstart: running Meson's tests in a tree and adding up what ran.

run_under=()  # a command before `meson test`

# test_tree TREE NAME TITLE MESON-TEST-ARGUMENT...: every test of every program counts, not the programs.
test_tree() {
  local tree=$1 name=$2 title=$3 start=$SECONDS status=0
  shift 3
  local log=$logs/test-$tree-$name.log
  say "== $title"
  rm -f "$tree/meson-logs/$name.json"
  PYTHONUNBUFFERED=1 "${run_under[@]}" meson test -C "$tree" --no-rebuild --print-errorlogs --logbase "$name" "$@" \
    </dev/null 2>&1 | tee "$log" || status=$?
  local counts
  counts=$(python3 .ci/steps/count_tests.py "$tree/meson-logs/$name.json" "$status")
  sed -n '2,$p' <<<"$counts"
  say "   $(elapsed "$start")"
  # shellcheck disable=SC2046 # three numbers
  record $(head -n 1 <<<"$counts") "$title"
}
