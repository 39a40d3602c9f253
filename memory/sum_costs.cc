#include "neap/memory/sum_costs.h"

#include "neap/core/plan/collective_cost.h"

namespace neap {

bool HasCostsOfSums(const DeviceDescription& device) {
  return device.collective_bandwidth > 0 || device.collective_latency_seconds > 0;
}

DeviceDescription AmongRanks(const DeviceDescription& device, const Program& program,
                             const PlannerOptions& options) {
  const int ranks = program.options.share.ranks;
  if (ranks == 1 || HasCostsOfSums(device) || options.kernels.timings == nullptr) return device;
  return WithMeasuredSums(device, options.kernels.timings->Sums(ranks));
}

}  // namespace neap
