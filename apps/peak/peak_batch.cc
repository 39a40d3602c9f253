// neap peak-batch: the largest batch that fits a byte budget.
#include <string>
#include <vector>

#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/peak/peak_finder.h"
#include "apps/peak/peak_report.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

constexpr int64_t kMostBatch = 1 << 24;

}  // namespace

absl::StatusOr<int> RunPeakBatch(const std::vector<std::string>& args) {
  PeakFlags given;
  std::vector<std::string> nets;
  FlagSet flags("neap peak-batch NET... [flags]",
                "Finds the largest batch that can be trained in a budget (by default the "
                "device's memory),\nby planning. Needs no GPU without --run.");
  flags.Positional("NET", kNetHelp, &nets);
  given.net.AddShapesTo(flags);
  given.net.AddDepthTo(flags);
  given.AddTo(flags);
  flags.Add("compare-batch", "N", "with --run, also train at this batch in the same budget",
            Integer(1, kMostBatch, &given.compared_batch));
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) {
    Print(flags.HelpText());
    return 0;
  }
  const Growth batch = {.what = "batch",
                        .most = kMostBatch,
                        .apply = [](int64_t n, nets::NetOptions& net) { net.batch = n; }};
  return FindAndPrint(given, nets, batch);
}

}  // namespace neap::apps
