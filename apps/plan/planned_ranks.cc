#include "apps/plan/planned_ranks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/cli/outcome.h"
#include "neap/core/plan/collective_cost.h"

namespace neap::apps {

void PlannedRanks::AddTo(FlagSet& flags) {
  constexpr int64_t kMaxRanks = 1 << 20;
  constexpr float kMaxUs = 1e6F;
  flags.Add("ranks", "N", "plan for one of N ranks, which share the batch and sum their gradients",
            Integer(1, kMaxRanks, &count));
  flags.Add("link", "BYTES",
            "what a rank sends, and receives, per second, e.g. 50GB; without it sums take the time "
            "that neap devices --measure-collectives has measured, or none",
            ReadBytes(&link_bytes_per_second));
  flags.Add("hop", "US", "with --link, microseconds from one rank to the next",
            Real(0, kMaxUs, &hop_us));
  flags.Add("sync-batch-norm",
            "with --ranks, batch norms use the statistics of the images of all ranks",
            &sync_batch_norm);
  flags.Add("shard-optimizer",
            "with --ranks, each keeps moments and fp32 masters of a part of the parameters only",
            &shard_optimizer);
}

absl::Status PlannedRanks::Check(int64_t batch) const {
  if (batch >= count) return absl::OkStatus();
  return BadUsage(absl::StrCat("--batch ", batch, " has too few images for ", count, " ranks"));
}

RankShare PlannedRanks::ShareOf(int64_t batch) const {
  if (count == 1) return {};
  return {.rank = 0, .ranks = static_cast<int>(count), .first_image = 0, .all_images = batch};
}

DeviceDescription PlannedRanks::Describe(DeviceDescription device) const {
  if (!link_bytes_per_second.has_value()) return device;
  return WithCollectives(std::move(device), static_cast<int>(count),
                         {.bytes_per_second = static_cast<double>(*link_bytes_per_second),
                          .hop_seconds = 1e-6 * static_cast<double>(hop_us)});
}

}  // namespace neap::apps
