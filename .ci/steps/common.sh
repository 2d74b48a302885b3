# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by quickstart: speaking, timing, logs, and the sum of all results.

logs=build-logs

say() { printf '%s\n' "$*"; }

die() {
  printf 'quickstart: %s\n' "$*" >&2
  exit 1
}

elapsed() {  # elapsed START
  local seconds=$((SECONDS - $1))
  if ((seconds < 60)); then printf '%d s' "$seconds"; else printf '%d min %02d s' $((seconds / 60)) $((seconds % 60)); fi
}

# Reads the output of a long command and says every few seconds where it is.
progress() {
  local line='' last='' shown=$SECONDS start=$SECONDS status
  while :; do
    status=0
    IFS= read -r -t 5 line || status=$?
    if ((status == 0)); then last=$line; elif ((status <= 128)); then return 0; fi
    if ((SECONDS - shown >= (SECONDS - start < 60 ? 5 : 15))); then
      printf '   %4d s  %.100s\n' $((SECONDS - start)) "$last"
      shown=$SECONDS
    fi
  done
}

show_failure() {  # show_failure TITLE LOG
  printf '\n%s failed. The end of its log:\n' "$1" >&2
  tail -n 25 "$2" | sed 's/^/  | /' >&2
  printf 'The whole log: %s\n\n' "$PWD/$2" >&2
}

# run_logged TITLE LOG COMMAND...: the output goes into the log, a short line to the reader now and then.
run_logged() {
  local title=$1 log=$2 start=$SECONDS
  shift 2
  mkdir -p "$logs"
  say "== $title"
  if "$@" </dev/null 2>&1 | tee "$log" | progress; then
    say "   $(elapsed "$start")"
  else
    show_failure "$title" "$log"
    return 1
  fi
}

start_results() {
  mkdir -p "$logs"
  : >"$logs/results"
  results_start=$SECONDS
}

record() {  # record PASSED FAILED SKIPPED TITLE
  printf '%d %d %d %s\n' "$1" "$2" "$3" "$4" >>"$logs/results"
}

# check TITLE LOG COMMAND...: a step that counts as one test.
check() {
  if run_logged "$@"; then record 1 0 0 "$1"; else record 0 1 0 "$1"; fi
}

# Ends the run: one row per step, the sum alone on the last line, and an exit code that says the same.
close_results() {
  local passed=0 failed=0 skipped=0 p f s title
  say ""
  while read -r p f s title; do
    printf '%6d passed %4d failed %4d skipped  %s\n' "$p" "$f" "$s" "$title"
    ((passed += p, failed += f, skipped += s)) || true
  done <"$logs/results"
  say "This took $(elapsed "$results_start"); the logs are in $logs/."
  if ((skipped > 0)); then say "$passed passed, $failed failed, $skipped skipped"; else say "$passed passed, $failed failed"; fi
  ((failed == 0 && passed > 0))
}
