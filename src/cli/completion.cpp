// SPDX-License-Identifier: MIT
// `framelane completion`: what shells and man need to know of the command line.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>

#include "cli/command.hpp"
#include "cli/command_tree.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "bash: a script that completes subcommands, options, their words, the lanes that\n"
    "are there, and files. An installed framelane has it in bash's own folder.\n"
    "man: the manual page framelane(1).\n"
    "\n"
    "Examples:\n"
    "  source <(framelane completion bash)\n"
    "  framelane completion man | man -l -";

constexpr const char* kHead = R"(# bash completion for framelane, printed by: framelane completion bash

# Offers those of the words that begin as what is typed does, as they are: compgen -W would expand them.
_framelane_offer() {
  local word
  COMPREPLY=()
  for word in "$@"; do
    if [[ $word == "$current"* ]]; then COMPREPLY+=("$word"); fi
  done
}

# A socket of another name than lanes have is none.
_framelane_lanes() {
  local LC_ALL=C directory=${FRAMELANE_DIR:-} file name lanes=()
  if [[ -z $directory ]]; then
    directory=/tmp/framelane-$UID
    if [[ ${XDG_RUNTIME_DIR:-} == /* ]]; then directory=$XDG_RUNTIME_DIR/framelane; fi
  fi
  for file in "$directory"/*; do
    name=${file##*/}
    if [[ -S $file && $name =~ ^[A-Za-z0-9][A-Za-z0-9_-]*$ ]]; then lanes+=("$name"); fi
  done
  _framelane_offer "${lanes[@]}"
}

_framelane() {
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}") current=${COMP_WORDS[COMP_CWORD]} path="" place=0 i
  COMPREPLY=()
  # "--option=value" comes in three words.
  if [[ $current == "=" ]]; then current=""; fi
  if [[ ${words[-1]} == "=" ]]; then unset 'words[-1]'; fi
  local before=${words[-1]}
  for ((i = 1; i < ${#words[@]}; i++)); do
    case "$path ${words[i]}" in
)";

constexpr const char* kWalked = R"( ;;
      *" -"*) ;;
      *" =") ;;
      *) ((place++)) ;;
    esac
  done
  case "$path $before" in
)";

constexpr const char* kNames = R"(  esac
  if [[ $current == -* ]]; then
    case "$path" in
)";

constexpr const char* kPlaces = R"(    esac
    return
  fi
  case "$path $place" in
)";

constexpr const char* kTail = R"(  esac
}

complete -F _framelane framelane
)";

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string reply_words(const std::vector<std::string>& words) {
  return words.empty() ? ":" : "_framelane_offer '" + joined(words, "' '") + "'";
}

// What completes a value of this kind.
std::string reply_for(const OptionText& option) {
  if (!option.choices.empty()) return reply_words(option.choices);
  const std::string kind = lower(option.positional ? option.names.front() : option.value);
  if (kind == "lane") return "_framelane_lanes";
  if (kind == "file" || kind == "path") {
    return R"~(mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames 2>/dev/null)~";
  }
  return ":";
}

/// The parts of the script that depend on the command line.
struct Tables {
  std::string walk;    // which words lead to a subcommand, and which options take the next word
  std::string values;  // behind an option
  std::string names;   // options
  std::string places;  // subcommands and positionals
};

// In a pattern of `case`: a subcommand's path without the program's name, and a word, quoted.
std::string pattern(const std::string& path, const std::string& word) { return "\"" + path + " " + word + "\""; }

void add_options(Tables& tables, const CommandText& command, const std::string& path) {
  std::vector<std::string> names;
  std::size_t place = 0;
  for (const OptionText& option : command.options) {
    if (option.positional) {
      tables.places += "    " + pattern(path, std::to_string(place++)) + ") " + reply_for(option) + " ;;\n";
      continue;
    }
    names.insert(names.end(), option.names.begin(), option.names.end());
    if (option.value.empty()) continue;
    std::string patterns;
    for (const std::string& name : option.names) patterns += (patterns.empty() ? "" : " | ") + pattern(path, name);
    tables.walk += "      " + patterns + ") ((i++)) ;;\n";
    tables.values += "    " + patterns + ") " + reply_for(option) + "; return ;;\n";
  }
  tables.names += "      \"" + path + "\") " + reply_words(names) + " ;;\n";
}

void add_command(Tables& tables, std::vector<std::string>& paths, const CommandText& command, const std::string& path) {
  add_options(tables, command, path);
  std::vector<std::string> names;
  for (const CommandText& below : command.commands) {
    names.push_back(below.name);
    paths.push_back(pattern(path, below.name));
    add_command(tables, paths, below, path + "/" + below.name);
  }
  if (!names.empty()) tables.places += "    " + pattern(path, "0") + ") " + reply_words(names) + " ;;\n";
}

int run(const CLI::App& app, const std::string& what) {
  const CommandText tree = command_tree(app);
  const std::string text = what == "bash" ? bash_completion(tree) : manual_page(tree);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kOk;
}

}  // namespace

std::string bash_completion(const CommandText& command) {
  Tables tables;
  std::vector<std::string> paths;
  add_command(tables, paths, command, "");
  return kHead + tables.walk + "      " + joined(paths, " | ") + ") path+=/${words[i]}" + kWalked + tables.values +
         kNames + tables.names + kPlaces + tables.places + kTail;
}

void add_completion(CLI::App& app, Action& chosen) {
  auto what = std::make_shared<std::string>();
  CLI::App& command = *app.add_subcommand("completion", "For bash, what completes a command line; the manual page");
  command.footer(kFooter);
  command.add_option("WHAT", *what, "bash or man")
      ->required()
      ->type_name("bash|man")
      ->check(CLI::IsMember({"bash", "man"}).description(""));
  command.callback([what, &app, &chosen] { chosen = [what, &app] { return run(app, *what); }; });
}

}  // namespace framelane::cli
