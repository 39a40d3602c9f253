#include "apps/cli/ranks.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cpu/cpu_device.h"

namespace neap::apps {

absl::StatusOr<RankGroup> RankGroup::Find() {
  RankGroup group;
  if (!StartedByMpi()) return group;
  ASSIGN_OR_RETURN(group.mpi_, MpiRanks::Start());
  const bool silenced = group.is_first() || std::freopen("/dev/null", "w", stdout) != nullptr;
  if (!silenced) return absl::UnavailableError("cannot silence the standard output");
  return group;
}

int64_t RankGroup::ImagesOf(int64_t whole_batch) const {
  return whole_batch / ranks() + (rank() < whole_batch % ranks() ? 1 : 0);
}

int64_t RankGroup::FirstImageOf(int64_t whole_batch) const {
  return whole_batch / ranks() * rank() + std::min<int64_t>(rank(), whole_batch % ranks());
}

RankShare RankGroup::ShareOf(int64_t whole_batch) const {
  if (ranks() == 1) return {};
  return {.rank = rank(),
          .ranks = ranks(),
          .first_image = FirstImageOf(whole_batch),
          .all_images = whole_batch};
}

absl::Status RankGroup::Join(Device& device) {
  if (ranks() == 1) return absl::OkStatus();
  auto* const cpu = dynamic_cast<CpuDevice*>(&device);
  if (cpu == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("there are ", ranks(), " ranks, but ", device.description().name,
                     " has no engine for sums over ranks; use --device cpu"));
  }
  ASSIGN_OR_RETURN(communicator_, mpi_->Join(*cpu));
  return absl::OkStatus();
}

absl::StatusOr<int> RankGroup::Outcome(absl::StatusOr<int> outcome) {
  if (outcome.ok() || mpi_ == nullptr) return outcome;
  mpi_->Abandon();
  if (absl::StartsWith(outcome.status().message(), "rank ")) return 1;
  absl::Status error(outcome.status().code(),
                     absl::StrCat("rank ", rank(), ": ", outcome.status().message()));
  outcome.status().ForEachPayload(
      [&](const auto& type, const absl::Cord& payload) { error.SetPayload(type, payload); });
  return error;
}

}  // namespace neap::apps
