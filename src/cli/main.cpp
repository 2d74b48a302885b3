// SPDX-License-Identifier: MIT
#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>

#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/command_tree.hpp"

namespace framelane::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  framelane demo                 a video to two consumers, one of them killed\n"
    "  framelane ls                   the lanes, and who uses them\n"
    "  framelane top                  what flows, in full screen\n"
    "  framelane bench rtt            round trip of 32 bytes and the bare limit\n"
    "  framelane bench rtt --size 1024 --json\n"
    "  framelane bench take           what taking a large frame costs\n"
    "  framelane bench gst            pipelines over lanesink, against shmsink\n"
    "  framelane send cam0 a.y4m      the frames of a file into a lane\n"
    "  framelane recv cam0 b.y4m      and out of it\n"
    "  framelane doctor               what this machine lacks for low latency\n"
    "\n";

int run(int argc, char** argv) {
  CLI::App app("Frames of video, audio and tensors between processes, at memory speed.", "framelane");
  app.set_version_flag("--version", "framelane " FRAMELANE_VERSION);
  app.footer(std::string(kFooter) + kExitCodes);
  app.get_formatter()->column_width(22);  // leaves 58 of 80 columns to the descriptions
  app.require_subcommand(1);
  Action chosen;
  add_bench(app, chosen);
  add_demo(app, chosen);
  add_demo_consumer(app, chosen);
  add_ls(app, chosen);
  add_top(app, chosen);
  add_send(app, chosen);
  add_recv(app, chosen);
  add_doctor(app, chosen);
  add_completion(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    // A word that nobody knows says more than the one that is missing: "framelane recieve cam0".
    const auto unknown = app.remaining(true);
    if (unknown.empty())
      app.exit(error);
    else
      app.exit(CLI::ExtrasError(unknown));
    return kUsage;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;  // help and version are "errors" of code 0
  }
  return chosen ? chosen() : kUsage;
}

// A full disk or a closed pipe shows only now.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "framelane: cannot write the output: %s\n", base::system_words(errno).c_str());
  return code == kOk ? kFailed : code;
}

}  // namespace
}  // namespace framelane::cli

int main(int argc, char** argv) {
  // What the helpers throw (no memory, a full disk under the table) ends here, as a sentence.
  try {
    return framelane::cli::flushed(framelane::cli::run(argc, argv));
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "framelane: there is no memory left: end other programs, or raise the limit (ulimit -v)\n");
    return framelane::cli::kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "framelane: cannot go on: %s\n", error.what());
    return framelane::cli::kFailed;
  }
}
