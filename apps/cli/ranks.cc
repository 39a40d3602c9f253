#include "apps/cli/ranks.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/numbers.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/batch_split.h"
#include "neap/core/run/ranks.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/collectives/mpi_ranks.h"
#include "neap/layers/collectives/nccl_ranks.h"
#include "neap/layers/collectives/torchrun_ranks.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/cuda/cuda_device.h"

namespace neap::apps {

void RankFlags::AddTo(FlagSet& flags) {
  constexpr int64_t kMaxImages = int64_t{1} << 24;
  constexpr int64_t kMaxSeconds = 24 * 60 * 60;
  const auto read = [this](const std::string& text) {
    split_by_time = text == "auto";
    std::vector<int64_t> parts;
    if (text == "auto" || text == "even") {
      split = {};
      return absl::OkStatus();
    }
    for (const auto part : absl::StrSplit(text, ',')) {
      const std::optional<int64_t> images = ReadWhole(std::string(part));
      if (!images.has_value() || *images < 1 || *images > kMaxImages)
        return BadUsage("even, auto or the images of each rank are needed, as in 300,212");
      parts.push_back(*images);
    }
    split = std::move(parts);
    return absl::OkStatus();
  };
  flags.Add(
      "split", "RULE",
      "even; auto, which makes all ranks finish together; or the images of the batch for each "
      "rank",
      {.read = read, .default_text = "even"});
  flags.Add("collective-timeout", "S", "seconds after which a rank gives up waiting for others",
            Integer(1, kMaxSeconds, &timeout_seconds));
}

RankGroup::RankGroup(std::string device, const RankFlags& flags, std::unique_ptr<Membership> member)
    : device_(std::move(device)), flags_(flags), member_(std::move(member)) {
  const int local = member_ == nullptr ? 0 : member_->local_rank();
  if (device_ == "cuda:local") device_ = absl::StrCat("cuda:", local);
}

absl::Status RankGroup::Divide(int64_t whole_batch) {
  parts_ = flags_.split.empty() ? EvenParts(whole_batch, ranks()) : flags_.split;
  if (parts_.back() == 0) {
    return BadUsage(
        absl::StrCat("--batch ", whole_batch, " has too few images for ", ranks(), " ranks"));
  }
  if (static_cast<int>(parts_.size()) != ranks()) {
    return BadUsage(absl::StrCat("--split has ", parts_.size(), " parts, but there are ", ranks(),
                                 " ranks (see neap train --help: --device)"));
  }
  const int64_t sum = std::accumulate(parts_.begin(), parts_.end(), int64_t{0});
  if (sum == whole_batch) return absl::OkStatus();
  return BadUsage(absl::StrCat("--split has ", sum, " images, but --batch ", whole_batch));
}

absl::Status RankGroup::DivideByTime(int64_t whole_batch, Device& device,
                                     const std::function<absl::StatusOr<double>()>& predict) {
  if (ranks() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<TextExchange> texts, member_->Texts(device));
  BatchSplit search(whole_batch, ranks());
  while (std::optional<std::vector<int64_t>> split = search.Next()) {
    parts_ = *std::move(split);
    const absl::StatusOr<double> own = predict();
    RETURN_IF_ERROR(Agree(own.status(), {}, texts.get()));
    ASSIGN_OR_RETURN(const std::vector<std::string> all, texts->Exchange(absl::StrCat(*own)));
    std::vector<double> seconds(all.size());
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (!absl::SimpleAtod(all[rank], &seconds[rank]))
        return absl::InternalError(absl::StrCat("rank ", rank, " has no prediction"));
    }
    search.Add(seconds);
  }
  if (!search.best().has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no split of --batch ", whole_batch, " was found that fits on ", ranks(),
                     " ranks; a smaller batch or larger budgets may help"));
  }
  parts_ = *search.best();
  return absl::OkStatus();
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
  ASSIGN_OR_RETURN(std::unique_ptr<TextExchange> texts, member_->Texts(device));
  const Terms kind = {{"kind of device", device.description().kind}};
  RETURN_IF_ERROR(Agree(absl::OkStatus(), kind, texts.get()));
  if (auto* const cpu = dynamic_cast<CpuDevice*>(&device)) return member_->Join(*cpu);
  auto* const gpu = dynamic_cast<CudaDevice*>(&device);
  if (gpu == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("no engine sums over ranks on ", device.description().name));
  }
  return JoinByNccl(*gpu, std::move(texts), std::chrono::seconds(flags_.timeout_seconds));
}

absl::StatusOr<int> RankGroup::Outcome(absl::StatusOr<int> outcome) {
  if (outcome.ok() || member_ == nullptr) return outcome;
  member_->Abandon();
  if (IsOfAnotherRank(outcome.status())) return 1;
  absl::Status error(outcome.status().code(),
                     absl::StrCat("rank ", rank(), ": ", outcome.status().message()));
  outcome.status().ForEachPayload(
      [&](const auto& type, const absl::Cord& payload) { error.SetPayload(type, payload); });
  return error;
}

namespace {

using RunRank = std::function<absl::StatusOr<int>(RankGroup&)>;

absl::StatusOr<int> RunAs(RankGroup group, const RunRank& run) {
  if (!group.is_first()) SilenceThread();
  return group.Outcome(Caught([&] { return run(group); }));
}

absl::StatusOr<int> RunOnThreads(const RankFlags& flags, const std::vector<std::string>& devices,
                                 const RunRank& run) {
  LocalRanks group(static_cast<int>(devices.size()), std::chrono::seconds(flags.timeout_seconds));
  std::vector<absl::StatusOr<int>> outcomes(devices.size(), 0);
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[rank] =
          RunAs(RankGroup(devices[rank], flags, group.MembershipOf(static_cast<int>(rank))), run);
    });
  }
  threads.clear();  // waits for them
  for (const bool is_cause : {true, false}) {
    for (const absl::StatusOr<int>& outcome : outcomes) {
      if (!outcome.ok() && absl::IsUnavailable(outcome.status()) != is_cause) return outcome;
    }
  }
  int code = 0;
  for (const absl::StatusOr<int>& outcome : outcomes) code = std::max(code, *outcome);
  return code;
}

}  // namespace

absl::StatusOr<int> RunRanks(const RankFlags& flags, const std::string& devices,
                             const RunRank& run) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, SplitDevices(devices));
  const std::chrono::seconds timeout(flags.timeout_seconds);
  const bool by_mpi = RanksOfMpi().value_or(1) > 1;
  const bool by_torchrun = !by_mpi && RanksOfTorchrun().value_or(1) > 1;
  if (names.size() > 1) {
    if (!by_mpi && !by_torchrun) return RunOnThreads(flags, names, run);
    return BadUsage(absl::StrCat("--device ", devices.substr(0, 64), ": ",
                                 by_mpi ? "mpirun" : "torchrun",
                                 " has started a rank for each device; name one, or cuda:local"));
  }
  std::unique_ptr<Membership> member;
  if (by_mpi) {
    ASSIGN_OR_RETURN(member, MpiRanks::Start(timeout));
  } else if (by_torchrun) {
    ASSIGN_OR_RETURN(member, StartTorchrunRank(timeout));
  }
  return RunAs(RankGroup(devices, flags, std::move(member)), run);
}

}  // namespace neap::apps
