#include "neap/memory/search/action_writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap {
namespace {

bool HasFixedPlace(const Tensor& tensor) {
  return IsPersistent(tensor.role) && tensor.home == Home::kArena;
}

class ActionWriter {
 public:
  ActionWriter(const Program& program, const ComputeSequence& runs, const Residency& residency,
               const EngineTable& engines, Allocator& allocator)
      : program_(program),
        runs_(runs),
        residency_(residency),
        engines_(engines),
        allocator_(allocator),
        buffers_(FindBuffers(residency)),
        regions_(residency.stays.size()),
        ending_(runs.size() + 1),
        offloaded_(runs.size() + 1) {
    for (size_t i = 0; i < residency.stays.size(); ++i) {
      const Stay& stay = residency.stays[i];
      ending_[static_cast<size_t>(stay.end)].push_back(i);
      if (stay.offload_at.has_value())
        offloaded_[static_cast<size_t>(*stay.offload_at)].push_back(i);
    }
  }

  absl::StatusOr<WrittenActions> Write() {
    PlacePersistent();
    for (size_t i = 0; i < runs_.size(); ++i) {
      RETURN_IF_ERROR(BeginStays(static_cast<int>(i)));
      if (i == 0) Offload(0);
      RETURN_IF_ERROR(Compute(static_cast<int>(i)));
      Offload(i + 1);
      for (size_t stay : ending_[i + 1]) RETURN_IF_ERROR(End(stay));
    }
    return std::move(result_);
  }

 private:
  void PlacePersistent() {
    int64_t offset = 0;
    for (const Tensor& tensor : program_.tensors) {
      if (!HasFixedPlace(tensor)) continue;
      const Region region = {offset, RoundUp(tensor.spec.size_bytes(), kBlockBytes)};
      Alloc(tensor.id, region);
      offset = region.end();
    }
    persistent_bytes_ = offset;
  }

  void Alloc(TensorId tensor, const Region& region) {
    Raise(region);
    result_.actions.emplace_back(AllocAction{tensor, region});
  }
  void Raise(const Region& region) {
    result_.peak_bytes = std::max(result_.peak_bytes, region.end());
  }

  absl::StatusOr<Region> Take(AllocationId id, int64_t bytes) {
    ASSIGN_OR_RETURN(Region region, allocator_.Allocate(id, bytes));
    region.offset += persistent_bytes_;
    return region;
  }

  absl::Status BeginStays(int position) {
    const size_t first = next_stay_;
    for (; next_stay_ < residency_.stays.size() && residency_.stays[next_stay_].begin == position;
         ++next_stay_) {
      RETURN_IF_ERROR(Begin(next_stay_));
    }
    for (size_t i = first; i < next_stay_; ++i) {
      const Stay& stay = residency_.stays[i];
      if (stay.fetched) result_.actions.emplace_back(PrefetchAction{stay.tensor});
    }
    return absl::OkStatus();
  }

  absl::Status Begin(size_t i) {
    const Stay& stay = residency_.stays[i];
    if (stay.replaces.has_value()) {
      regions_[i] = regions_[*stay.replaces];
    } else {
      ASSIGN_OR_RETURN(regions_[i], Take(static_cast<AllocationId>(i),
                                         program_.tensor(stay.tensor).spec.size_bytes()));
    }
    Alloc(stay.tensor, regions_[i]);
    return absl::OkStatus();
  }

  absl::Status Compute(int position) {
    const Run& run = runs_[static_cast<size_t>(position)];
    if (IsCollective(program_.steps[run.step.index()].phase)) {
      result_.actions.emplace_back(CollectiveAction{run.step});
      return absl::OkStatus();
    }
    ComputeAction action = {.step = run.step, .recompute = run.recompute};
    const Configuration& configuration = engines_.FirstThatFits(run, allocator_.LargestFreeBytes());
    const int64_t bytes = configuration.workspace_bytes;
    if (!engines_.Of(run).only_one) action.engines = configuration.parts;
    result_.compute_seconds.push_back(configuration.seconds);
    result_.sources.push_back(configuration.source);
    if (bytes > 0) {
      ASSIGN_OR_RETURN(action.workspace, Take(WorkspaceId(position), bytes));
      Raise(*action.workspace);
      RETURN_IF_ERROR(allocator_.Free(WorkspaceId(position)));
    }
    result_.actions.emplace_back(std::move(action));
    return absl::OkStatus();
  }

  // Copies to the host what is complete once the run before `position` is done.
  void Offload(size_t position) {
    for (size_t i : offloaded_[position])
      result_.actions.emplace_back(OffloadAction{residency_.stays[i].tensor});
  }

  // The bytes of a stay that is replaced stay allocated for its successor.
  absl::Status End(size_t i) {
    result_.actions.emplace_back(FreeAction{residency_.stays[i].tensor});
    if (buffers_.is_replaced[i]) return absl::OkStatus();
    return allocator_.Free(static_cast<AllocationId>(buffers_.first[i]));
  }

  const Program& program_;
  const ComputeSequence& runs_;
  const Residency& residency_;
  const EngineTable& engines_;
  Allocator& allocator_;
  Buffers buffers_;
  WrittenActions result_;
  int64_t persistent_bytes_ = 0;
  size_t next_stay_ = 0;                        // the first that has not begun
  std::vector<Region> regions_;                 // by stay
  std::vector<std::vector<size_t>> ending_;     // by position: the stays that end there
  std::vector<std::vector<size_t>> offloaded_;  // by position: the stays copied before its run
};

}  // namespace

Buffers FindBuffers(const Residency& residency) {
  const size_t count = residency.stays.size();
  Buffers buffers = {std::vector<size_t>(count), std::vector<bool>(count, false),
                     std::vector<int>(count)};
  std::iota(buffers.first.begin(), buffers.first.end(), size_t{0});
  // Stays are sorted by `begin`, so the first stay of a chain comes first.
  for (size_t i = 0; i < count; ++i) {
    const Stay& stay = residency.stays[i];
    if (stay.replaces.has_value()) {
      buffers.first[i] = buffers.first[*stay.replaces];
      buffers.is_replaced[*stay.replaces] = true;
    }
    buffers.end[buffers.first[i]] = stay.end;
  }
  return buffers;
}

int64_t PersistentBytes(const Program& program) {
  int64_t bytes = 0;
  for (const Tensor& tensor : program.tensors) {
    if (HasFixedPlace(tensor)) bytes += RoundUp(tensor.spec.size_bytes(), kBlockBytes);
  }
  return bytes;
}

absl::StatusOr<WrittenActions> WriteActions(const Program& program, const ComputeSequence& runs,
                                            const Residency& residency, const EngineTable& engines,
                                            Allocator& allocator) {
  return ActionWriter(program, runs, residency, engines, allocator).Write();
}

}  // namespace neap
