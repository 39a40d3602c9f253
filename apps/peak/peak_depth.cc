// neap peak-depth: the deepest network that fits a byte budget.
#include <string>
#include <vector>

#include "apps/cli/output.h"
#include "apps/peak/growth.h"
#include "apps/peak/peak_finder.h"
#include "apps/peak/peak_report.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

constexpr int64_t kPaperBatch = 16;  // of SuperNeurons' table of depths

}  // namespace

absl::StatusOr<int> RunPeakDepth(const std::vector<std::string>& args) {
  PeakFlags given;
  given.net.options.batch = kPaperBatch;
  FlagSet flags(
      "neap peak-depth NET [flags]",
      "Finds the deepest resnet (depth 3n+134), resnet-cifar (6n+2), densenet-cifar "
      "(3n+4) or\ndensenet-bc-cifar (6n+4) that can be trained in a budget (by default the "
      "device's memory), by\nplanning. Needs no GPU without --run.");
  flags.Positional("NET", kNetHelp, &given.net.name);
  given.net.AddBatchTo(flags);
  given.net.AddShapesTo(flags);
  given.AddTo(flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) {
    Print(flags.HelpText());
    return 0;
  }
  ASSIGN_OR_RETURN(const Growth depth, GrowingDepth(given.net.name));
  RETURN_IF_ERROR(given.optimizer.Check(flags));
  return FindAndPrint(given, {given.net.name}, depth);
}

}  // namespace neap::apps
