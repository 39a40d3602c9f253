#include "neap/core/plan/collective_cost.h"

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

}  // namespace neap
