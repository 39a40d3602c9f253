#include "apps/peak/peak_flags.h"

#include <cstdint>
#include <limits>

#include "apps/cli/device_flag.h"
#include "apps/cli/outcome.h"

namespace neap::apps {

void PeakFlags::AddTo(FlagSet& flags) {
  planning.AddTo(flags, PlannedDevices(), BudgetUnits::kBytes);
  optimizer.AddMemoryTo(flags);
  flags.Add("run", "confirm the result by training at that size on the device", &run);
  flags.Add("steps", "N", "training steps, with --run",
            Integer(1, std::numeric_limits<int32_t>::max(), &steps));
  flags.Add("json", "print one JSON object", &json);
}

absl::Status PeakFlags::Check() const {
  if (compared_batch.has_value() && !run) return BadUsage("--compare-batch needs --run");
  return net.CheckEngines(planning.kernels.engines);
}

}  // namespace neap::apps
