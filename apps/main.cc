// The `neap` command: finds the subcommand and runs it.
#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/outcome.h"
#include "apps/cli/wait_policy.h"
#include "neap/core/base/version.h"

namespace neap::apps {
namespace {

struct Entry {
  std::string name;
  std::string arguments;
  std::string about;
  Subcommand run;
};

std::vector<Entry> Entries() {
  return {
      {"plan", "NET", "plan one training iteration; needs no GPU", RunPlan},
      {"train", "NET", "train a network under a byte budget", RunTrain},
      {"eval", "NET", "measure the accuracy of trained weights on a dataset", RunEval},
      {"predict", "NET", "print what trained weights predict for each image", RunPredict},
      {"export", "NET", "write a network with its weights to an ONNX file", RunExport},
      {"peak-batch", "NET...", "find the largest batch that fits a byte budget", RunPeakBatch},
      {"peak-depth", "NET...", "find the deepest network that fits a byte budget", RunPeakDepth},
      {"profile", "NET", "measure how long each engine of each step takes", RunProfile},
      {"bench", "WHAT", "compare ways to run convolutions, workspaces or the memory pool",
       RunBench},
      {"paper", "NAME", "show a paper's table or figure beside neap's", RunPaper},
      {"nets", "", "list the networks", RunNets},
      {"devices", "", "list the devices to train on and to plan for", RunDevices},
  };
}

std::string HelpText() {
  std::string text =
      "neap trains networks larger than the device's memory: it plans every byte of an iteration,\n"
      "proves the plan, and runs it.\n\nusage: neap SUBCOMMAND [flags]\n\nsubcommands:\n";
  for (const Entry& entry : Entries()) {
    absl::StrAppendFormat(&text, "  %-19s%s\n", entry.name + " " + entry.arguments, entry.about);
  }
  absl::StrAppend(&text,
                  "\nneap SUBCOMMAND --help lists its flags; neap --version prints the version.\n");
  return text;
}

bool IsOneOf(const std::string& text, std::initializer_list<const char*> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

absl::StatusOr<int> RunSubcommand(const std::vector<std::string>& args) {
  std::vector<std::string> names;
  for (const Entry& entry : Entries()) {
    if (entry.name == args[0]) return entry.run({args.begin() + 1, args.end()});
    names.push_back(entry.name);
  }
  const std::string closest = Closest(args[0], names);
  return BadUsage(absl::StrCat(
      "unknown subcommand '", args[0].substr(0, 64), "'",
      closest.empty() ? "; see neap --help" : absl::StrCat("; did you mean ", closest, "?")));
}

absl::StatusOr<int> Dispatch(std::vector<std::string> args) {
  if (args.empty()) return BadUsage("a subcommand is missing; see neap --help");
  if (IsOneOf(args[0], {"--version", "-v", "-V", "version"})) {
    absl::PrintF("neap %s (commit %s)\n", std::string(kVersion), NEAP_COMMIT);
    return 0;
  }
  if (!IsOneOf(args[0], {"--help", "-h", "help"})) return RunSubcommand(args);
  if (args.size() > 1 && args[1].rfind("-", 0) != 0) {  // neap help train
    args.erase(args.begin());
    args.push_back("--help");
    return RunSubcommand(args);
  }
  std::fputs(HelpText().c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace neap::apps

int main(int argc, char** argv) {
  neap::apps::WaitPassively(argv);
  return neap::apps::Finish(neap::apps::Caught([&] {
    neap::apps::TakeSignals();
    return neap::apps::Dispatch({argv + 1, argv + argc});
  }));
}
