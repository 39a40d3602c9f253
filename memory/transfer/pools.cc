#include "neap/memory/transfer/pools.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/units.h"
#include "neap/memory/placement/placement.h"

namespace neap {
namespace {

// Host and peer memory is plentiful: a gap of one part in kPoolGap is not worth a search.
constexpr int64_t kPoolGap = 50;
constexpr int64_t kMaxComparisons = 1'000'000;  // of placement; every candidate plan has a layout

using Copies = std::vector<ExternalCopy>;

class CopyFinder {
 public:
  explicit CopyFinder(const Plan& plan) : plan_(plan), open_(plan.tensors.size()) {}

  Copies Find() {
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      const auto action = static_cast<int64_t>(i);
      if (const auto* offload = std::get_if<OffloadAction>(&plan_.actions[i])) {
        if (!plan_.tensors[offload->tensor.index()].on_host()) Begin(*offload, action);
      } else if (const auto* prefetch = std::get_if<PrefetchAction>(&plan_.actions[i])) {
        if (!plan_.tensors[prefetch->tensor.index()].on_host()) Read(prefetch->tensor);
      }
    }
    for (ExternalCopy& copy : copies_) {
      if (copy.end == kOpen) copy.end = time_;
    }
    return std::move(copies_);
  }

 private:
  static constexpr int kOpen = -1;

  void Begin(const OffloadAction& offload, int64_t action) {
    std::optional<size_t>& open = open_[offload.tensor.index()];
    if (open.has_value() && copies_[*open].end == kOpen) copies_[*open].end = time_;
    open = copies_.size();
    copies_.push_back({.tensor = offload.tensor,
                       .pool = offload.pool,
                       .bytes = RoundUp(plan_.tensors[offload.tensor.index()].bytes, kBlockBytes),
                       .action = action,
                       .begin = time_,
                       .end = kOpen});
    ++time_;
  }
  void Read(TensorId tensor) {
    ExternalCopy& copy = copies_[*open_[tensor.index()]];
    copy.end = ++time_;
    ++copy.reads;
  }

  const Plan& plan_;
  Copies copies_;
  std::vector<std::optional<size_t>> open_;  // by TensorId: its last copy
  int time_ = 0;                             // transfers so far
};

std::vector<PlacementBlock> BlocksOf(const Copies& copies) {
  std::vector<PlacementBlock> blocks;
  blocks.reserve(copies.size());
  for (const ExternalCopy& copy : copies)
    blocks.push_back({.bytes = copy.bytes, .begin = copy.begin, .end = copy.end});
  return blocks;
}

// By Pool.
std::array<Copies, kPoolCount> CopiesByPool(const Plan& plan) {
  std::array<Copies, kPoolCount> by_pool;
  for (const ExternalCopy& copy : FindCopies(plan))
    by_pool[static_cast<size_t>(copy.pool)].push_back(copy);
  return by_pool;
}

// For each Pool, the offset at which copies begin, above the tensors on the host between
// iterations.
std::array<int64_t, kPoolCount> CopiesBegin(const Plan& plan) {
  std::array<int64_t, kPoolCount> begin = {};
  begin[static_cast<size_t>(Pool::kHost)] = plan.host_resident_bytes;
  return begin;
}

OffloadAction& OffloadOf(const ExternalCopy& copy, Plan& plan) {
  return std::get<OffloadAction>(plan.actions[static_cast<size_t>(copy.action)]);
}

void SetPoolBytes(const std::array<int64_t, kPoolCount>& bytes, Plan& plan) {
  plan.host_pool_bytes = bytes[static_cast<size_t>(Pool::kHost)];
  plan.peer_pool_bytes = bytes[static_cast<size_t>(Pool::kPeer)];
}

// Tensors that are on the host between iterations return to their fixed offsets.
void PlaceResidents(Plan& plan) {
  for (Action& action : plan.actions) {
    auto* offload = std::get_if<OffloadAction>(&action);
    if (offload == nullptr) continue;
    const PlanTensor& tensor = plan.tensors[offload->tensor.index()];
    if (tensor.on_host()) offload->offset = *tensor.host_offset;
  }
}

}  // namespace

std::vector<ExternalCopy> FindCopies(const Plan& plan) { return CopyFinder(plan).Find(); }

PoolLayout LayOutCopies(const std::vector<ExternalCopy>& copies) {
  const std::vector<PlacementBlock> blocks = BlocksOf(copies);
  const int64_t bound = PlacementLowerBound(blocks);
  PlacementResult placed = PlaceOffline(
      blocks, {.target_bytes = bound + bound / kPoolGap, .most_comparisons = kMaxComparisons});
  return {.offsets = std::move(placed.offsets), .bytes = placed.extent_bytes};
}

void LayOutPools(Plan& plan) {
  PlaceResidents(plan);
  std::array<int64_t, kPoolCount> bytes = CopiesBegin(plan);
  const std::array<Copies, kPoolCount> copies = CopiesByPool(plan);
  for (size_t pool = 0; pool < copies.size(); ++pool) {
    const PoolLayout layout = LayOutCopies(copies[pool]);
    for (size_t i = 0; i < copies[pool].size(); ++i)
      OffloadOf(copies[pool][i], plan).offset = bytes[pool] + layout.offsets[i];
    bytes[pool] += layout.bytes;
  }
  SetPoolBytes(bytes, plan);
}

void LayOutApart(Plan& plan) {
  PlaceResidents(plan);
  std::array<int64_t, kPoolCount> bytes = CopiesBegin(plan);
  for (const ExternalCopy& copy : FindCopies(plan)) {
    int64_t& end = bytes[static_cast<size_t>(copy.pool)];
    OffloadOf(copy, plan).offset = end;
    end += copy.bytes;
  }
  SetPoolBytes(bytes, plan);
}

std::array<int64_t, kPoolCount> PoolPeakBytes(const Plan& plan) {
  const std::array<Copies, kPoolCount> copies = CopiesByPool(plan);
  std::array<int64_t, kPoolCount> peaks = CopiesBegin(plan);
  for (size_t pool = 0; pool < peaks.size(); ++pool)
    peaks[pool] += PlacementLowerBound(BlocksOf(copies[pool]));
  return peaks;
}

}  // namespace neap
