// neap peak-depth: the deepest network that fits a byte budget.
#include <string>
#include <utility>
#include <vector>

#include "apps/peak/growth.h"
#include "apps/peak/peak_command.h"
#include "apps/peak/peak_flags.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

constexpr int64_t kPaperBatch = 16;  // of SuperNeurons' table of depths

}  // namespace

absl::StatusOr<int> RunPeakDepth(const std::vector<std::string>& args) {
  PeakFlags given;
  given.net.options.batch = kPaperBatch;
  std::vector<std::string> nets;
  FlagSet flags(
      "neap peak-depth NET... [flags]",
      "Finds the deepest resnet (depth 3n+134), densenet (2n+43), resnet-cifar (6n+2), "
      "densenet-cifar\n(3n+4) or densenet-bc-cifar (6n+4) that can be trained in a budget (by "
      "default the device's\nmemory), by planning. Needs no GPU without --run. The natural peak of "
      "a depth is what it takes,\nwithout workspaces, if every tensor keeps bytes of its own.");
  flags.Positional("NET", kNetHelp, &nets);
  given.net.AddBatchTo(flags);
  given.net.AddShapesTo(flags);
  given.AddTo(flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  std::vector<GrowingNet> growing;
  for (const std::string& net : nets) {
    ASSIGN_OR_RETURN(Growth depth, GrowingDepth(net));
    growing.push_back({net, std::move(depth)});
  }
  RETURN_IF_ERROR(given.optimizer.Check(flags));
  return FindAndPrint(given, growing);
}

}  // namespace neap::apps
