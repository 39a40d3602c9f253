// neap peak-batch: the largest batch that fits a byte budget.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/cli/numbers.h"
#include "apps/cli/outcome.h"
#include "apps/peak/growth.h"
#include "apps/peak/peak_command.h"
#include "apps/peak/peak_flags.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

FlagValue KeepPercent(std::optional<double>* percent) {
  const auto read = [percent](const std::string& text) {
    *percent = ReadPercent(text);
    if (percent->has_value() && **percent > 0 && **percent <= 100) return absl::OkStatus();
    return BadUsage(absl::StrCat("'", text.substr(0, 64),
                                 "' is not a percentage above 0% and at most 100%, such as 80%"));
  };
  return {.read = read};
}

}  // namespace

absl::StatusOr<int> RunPeakBatch(const std::vector<std::string>& args) {
  PeakFlags given;
  std::vector<std::string> nets;
  FlagSet flags(
      "neap peak-batch NET... [flags]",
      "Finds the largest batch that can be trained in a budget (by default the "
      "device's memory),\nby planning. Needs no GPU without --run. With --keep, finds the "
      "largest batch whose predicted\nimages/s in the budget are at least this part of "
      "those of the same network and element type at\nthe same batch without a budget, "
      "where nothing is moved and nothing is recomputed.\nThe natural peak of a batch is what it "
      "takes, without workspaces, if every tensor keeps bytes of its own.");
  flags.Positional("NET", kNetHelp, &nets);
  given.net.AddShapesTo(flags);
  given.net.AddDepthTo(flags);
  given.AddTo(flags);
  flags.Add("compare-batch", "N", "with --run, also train at this batch in the same budget",
            Integer(1, kMaxBatch, &given.compared_batch));
  flags.Add("keep", "PERCENT",
            "the largest batch that keeps this part of its speed, e.g. 80%; with --run, also "
            "measures the part",
            KeepPercent(&given.keep_percent));
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  RETURN_IF_ERROR(given.optimizer.Check(flags));
  std::vector<GrowingNet> growing;
  for (const std::string& net : nets) growing.push_back({net, GrowingBatch()});
  return FindAndPrint(given, growing);
}

}  // namespace neap::apps
