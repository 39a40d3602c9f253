// The flags of `neap plan` for one of several ranks, whose number and links need not exist.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "apps/cli/flags.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"

namespace neap::apps {

struct PlannedRanks {
  int64_t count = 1;
  std::optional<int64_t> link_bytes_per_second = {};
  float hop_us = 5;
  bool sync_batch_norm = false;
  bool shard_optimizer = false;

  // The flags refer to this object, which must not move.
  void AddTo(FlagSet& flags);
  // Errors: BadUsage() for a batch with fewer images than ranks.
  absl::Status Check(int64_t batch) const;

  // The images of rank 0, which has the largest part of the batch.
  int64_t ImagesOf(int64_t batch) const { return (batch + count - 1) / count; }
  RankShare ShareOf(int64_t batch) const;
  // The description with the costs of sums (core/plan/collective_cost.h) over the link, if one was
  // given.
  DeviceDescription Describe(DeviceDescription device) const;
};

}  // namespace neap::apps
