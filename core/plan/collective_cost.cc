#include "neap/core/plan/collective_cost.h"

#include <algorithm>
#include <bit>

namespace neap {

DeviceDescription WithCollectives(DeviceDescription device, int ranks, const RankLink& link) {
  if (ranks == 1) return device;
  const auto n = static_cast<double>(ranks);
  const int doublings = std::bit_width(static_cast<unsigned>(ranks - 1));
  device.collective_latency_seconds = 2 * doublings * link.hop_seconds;
  device.collective_bandwidth = link.bytes_per_second * n / (2 * (n - 1));
  return device;
}

DeviceDescription WithMeasuredSums(DeviceDescription device, const std::vector<TimedSum>& sums) {
  if (sums.empty()) return device;
  const auto [smallest, largest] =
      std::minmax_element(sums.begin(), sums.end(),
                          [](const TimedSum& a, const TimedSum& b) { return a.bytes < b.bytes; });
  device.collective_latency_seconds = smallest->seconds;
  const double seconds = largest->seconds - smallest->seconds;
  if (seconds > 0)
    device.collective_bandwidth = static_cast<double>(largest->bytes - smallest->bytes) / seconds;
  return device;
}

}  // namespace neap
