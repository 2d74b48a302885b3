// SPDX-License-Identifier: MIT
#include "cli/command_tree.hpp"

#include <algorithm>
#include <cctype>

namespace framelane::cli {
namespace {

bool is_word(const std::string& text) {
  return !text.empty() && std::none_of(text.begin(), text.end(), [](unsigned char c) { return std::isupper(c) != 0; });
}

// "S|none" -> {"none"}: what stands in capitals is for people.
std::vector<std::string> choices_of(const std::string& value) {
  std::vector<std::string> choices;
  if (value.find('|') == std::string::npos) return choices;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find('|', at), value.size());
    const std::string word = value.substr(at, end - at);
    if (is_word(word)) choices.push_back(word);
    at = end + 1;
  }
  return choices;
}

OptionText text_of(const CLI::Option& option) {
  OptionText text;
  text.positional = !option.nonpositional();
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (text.positional) text.names.push_back(option.get_name(true));
  text.description = option.get_description();
  text.required = option.get_required();
  if (option.get_items_expected_max() > 0) {
    const std::string type = option.get_type_name();
    text.value = type.substr(0, type.find(':'));  // behind it: what checks the value
    if (text.value.empty() && !text.positional) text.value = "VALUE";
  }
  text.choices = choices_of(text.value);
  return text;
}

CommandText tree_of(const CLI::App& app, const std::string& above) {
  CommandText text;
  text.name = app.get_name();
  text.path = above + text.name;
  text.description = app.get_description();
  text.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) text.options.push_back(text_of(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) text.commands.push_back(tree_of(*command, text.path + " "));
  }
  return text;
}

}  // namespace

CommandText command_tree(const CLI::App& app) { return tree_of(app, ""); }

}  // namespace framelane::cli
