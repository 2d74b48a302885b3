# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by quickstart: configuring and building a tree.

# What decides which parts Meson builds: a package that came or went since means configuring again.
installed_now() {
  # shellcheck disable=SC2048,SC2086 # lists of words
  missing_packages ${packages[*]} | sort | sed 's/^/missing /'
}

# configure TREE MESON-OPTION...: sets the tree up, or changes it if the options or the installed packages changed.
configure() {
  local tree=$1 wanted_config mode=()
  shift
  wanted_config=$(printf '%s\n' "$@" && installed_now)
  if [ -f "$tree/build.ninja" ]; then
    [ "$wanted_config" != "$(cat "$tree/quickstart-config" 2>/dev/null)" ] || return 0
    mode=(--reconfigure)
  fi
  run_logged "Configuring $tree" "$logs/configure-$tree.log" meson setup "${mode[@]}" "$tree" "$@" || return 1
  printf '%s\n' "$wanted_config" >"$tree/quickstart-config"
}

# On a terminal ninja shows its own line, and errors where they happen; elsewhere a short line every few seconds.
run_ninja() {
  local tree=$1 title=$2 start=$SECONDS
  if ! [ -t 1 ]; then
    run_logged "$title" "$logs/build-$tree.log" ninja -C "$tree"
    return
  fi
  say "== $title"
  if ninja -C "$tree"; then
    say "   $(elapsed "$start")"
  else
    ninja -C "$tree" >"$logs/build-$tree.log" 2>&1 || true  # once more, for the log
    show_failure "$title" "$logs/build-$tree.log"
    return 1
  fi
}

# build_tree TREE TITLE MESON-OPTION...: a failure counts as one failed test.
build_tree() {
  local tree=$1 title=$2
  shift 2
  mkdir -p "$logs"
  if configure "$tree" "$@" && run_ninja "$tree" "$title"; then return 0; fi
  record 0 1 0 "$title"
  return 1
}
