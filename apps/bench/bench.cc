// neap bench: runs the benchmark that the first argument names.
#include "apps/bench/bench.h"

#include "absl/strings/str_cat.h"
#include "apps/cli/flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"

namespace neap::apps {
namespace {

constexpr char kHelp[] =
    "usage: neap bench conv|workspace|pool [flags]\n\n"
    "Measures on a device:\n"
    "  conv           convolutions, undivided and in micro-batches\n"
    "  workspace NET  ways to choose workspaces, when training within budgets\n"
    "  pool NET       one arena, and an allocation for each tensor\n\n"
    "neap bench conv --help, neap bench workspace --help and neap bench pool --help list their "
    "flags.\n";

}  // namespace

absl::StatusOr<int> RunBench(const std::vector<std::string>& args) {
  if (args.empty()) return BadUsage("the benchmark's name is missing; see neap bench --help");
  if (args[0] == "--help" || args[0] == "-h") {
    Print(kHelp);
    return 0;
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "conv") return RunConvCommand(rest);
  if (args[0] == "workspace") return RunWorkspaceBench(rest);
  if (args[0] == "pool") return RunPoolBench(rest);
  const std::string closest = Closest(args[0], {"conv", "workspace", "pool"});
  return BadUsage(absl::StrCat(
      "unknown benchmark '", args[0].substr(0, 64), "'",
      closest.empty() ? "; see neap bench --help" : absl::StrCat("; did you mean ", closest, "?")));
}

}  // namespace neap::apps
