#include "apps/cli/ranks.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/cli/numbers.h"
#include "apps/cli/outcome.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/run/ranks.h"
#include "neap/layers/cpu/cpu_device.h"

namespace neap::apps {

void RankFlags::AddTo(FlagSet& flags) {
  constexpr int64_t kMostImages = int64_t{1} << 24;
  constexpr int64_t kMostSeconds = 24 * 60 * 60;
  const auto read = [this](const std::string& text) {
    std::vector<int64_t> parts;
    for (const auto part : absl::StrSplit(text, ',')) {
      const std::optional<int64_t> images = ReadWhole(std::string(part));
      if (!images.has_value() || *images < 1 || *images > kMostImages)
        return BadUsage("the images of each rank are needed, as in 300,212");
      parts.push_back(*images);
    }
    split = std::move(parts);
    return absl::OkStatus();
  };
  flags.Add("split", "N,N...", "images of the batch for each rank that mpirun has started",
            {.read = read, .default_text = "even"});
  flags.Add("collective-timeout", "S", "seconds after which a rank gives up waiting for others",
            Integer(1, kMostSeconds, &timeout_seconds));
}

absl::StatusOr<RankGroup> RankGroup::Find(const RankFlags& flags) {
  RankGroup group;
  group.split_ = flags.split;
  if (RanksOfMpi().value_or(1) == 1) return group;
  ASSIGN_OR_RETURN(group.mpi_, MpiRanks::Start(std::chrono::seconds(flags.timeout_seconds)));
  const bool silenced = group.is_first() || std::freopen("/dev/null", "w", stdout) != nullptr;
  if (!silenced) return absl::UnavailableError("cannot silence the standard output");
  return group;
}

absl::Status RankGroup::Divide(int64_t whole_batch) {
  parts_ = split_;
  for (int64_t rank = 0; split_.empty() && rank < ranks(); ++rank)
    parts_.push_back(whole_batch / ranks() + (rank < whole_batch % ranks() ? 1 : 0));
  if (parts_.back() == 0) {
    return BadUsage(
        absl::StrCat("--batch ", whole_batch, " has too few images for ", ranks(), " ranks"));
  }
  if (static_cast<int>(parts_.size()) != ranks()) {
    return BadUsage(absl::StrCat("--split has ", parts_.size(), " parts, but there are ", ranks(),
                                 " ranks (mpirun -n N neap train ... starts N)"));
  }
  const int64_t sum = std::accumulate(parts_.begin(), parts_.end(), int64_t{0});
  if (sum == whole_batch) return absl::OkStatus();
  return BadUsage(absl::StrCat("--split has ", sum, " images, but --batch ", whole_batch));
}

int64_t RankGroup::first_image() const {
  return std::accumulate(parts_.begin(), parts_.begin() + rank(), int64_t{0});
}

RankShare RankGroup::share() const {
  if (ranks() == 1) return {};
  return {.rank = rank(),
          .ranks = ranks(),
          .first_image = first_image(),
          .all_images = std::accumulate(parts_.begin(), parts_.end(), int64_t{0})};
}

absl::StatusOr<std::unique_ptr<Communicator>> RankGroup::Join(Device& device) {
  if (ranks() == 1) return nullptr;
  auto* const cpu = dynamic_cast<CpuDevice*>(&device);
  if (cpu == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("there are ", ranks(), " ranks, but ", device.description().name,
                     " has no engine for sums over ranks; use --device cpu"));
  }
  return mpi_->Join(*cpu);
}

absl::StatusOr<int> RankGroup::Outcome(absl::StatusOr<int> outcome) {
  if (outcome.ok() || mpi_ == nullptr) return outcome;
  mpi_->Abandon();
  if (IsOfAnotherRank(outcome.status())) return 1;
  absl::Status error(outcome.status().code(),
                     absl::StrCat("rank ", rank(), ": ", outcome.status().message()));
  outcome.status().ForEachPayload(
      [&](const auto& type, const absl::Cord& payload) { error.SetPayload(type, payload); });
  return error;
}

}  // namespace neap::apps
