#include "neap/memory/transfer/pools.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/units.h"
#include "neap/memory/placement/placement.h"
#include "neap/memory/transfer/byte_history.h"

namespace neap {
namespace {

// Memory of hosts and peers is plentiful: a gap of one part in so many is not worth a search.
constexpr int64_t kGoodEnough = 50;
constexpr int64_t kMostComparisons = 1'000'000;  // of placement: layouts are made for each draft

using Copies = std::vector<ExternalCopy>;

class CopyFinder {
 public:
  explicit CopyFinder(const Plan& plan) : plan_(plan), open_(plan.tensors.size()) {}

  Copies Find() {
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      const auto action = static_cast<int64_t>(i);
      if (const auto* offload = std::get_if<OffloadAction>(&plan_.actions[i])) {
        if (!plan_.tensors[offload->tensor.index()].on_host) Begin(*offload, action);
      } else if (const auto* prefetch = std::get_if<PrefetchAction>(&plan_.actions[i])) {
        if (!plan_.tensors[prefetch->tensor.index()].on_host) Read(prefetch->tensor, action);
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
  void Read(TensorId tensor, int64_t action) {
    ExternalCopy& copy = copies_[*open_[tensor.index()]];
    copy.end = ++time_;
    ++copy.reads;
    copy.last_read = action;
  }

  const Plan& plan_;
  Copies copies_;
  std::vector<std::optional<size_t>> open_;  // by TensorId: the last copy
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

}  // namespace

HostHomes LayOutHostHomes(const Plan& plan) {
  HostHomes homes = {.offsets = std::vector<int64_t>(plan.tensors.size(), 0)};
  for (const PlanTensor& tensor : plan.tensors) {
    if (!tensor.on_host) continue;
    homes.offsets[tensor.id.index()] = homes.bytes;
    homes.bytes += RoundUp(tensor.bytes, kBlockBytes);
  }
  return homes;
}

std::vector<ExternalCopy> FindCopies(const Plan& plan) { return CopyFinder(plan).Find(); }

PoolLayout LayOutCopies(const std::vector<ExternalCopy>& copies) {
  const std::vector<PlacementBlock> blocks = BlocksOf(copies);
  const int64_t bound = PlacementLowerBound(blocks);
  const PlacementResult placed = PlaceOffline(
      blocks, {.target_bytes = bound + bound / kGoodEnough, .most_comparisons = kMostComparisons});
  PoolLayout layout = {.bytes = placed.extent_bytes};
  layout.places.reserve(copies.size());
  // A later reader of the same bytes is waited for in place of the earlier; who is never read
  // leaves the earlier reader to be waited for.
  ByteHistory<std::optional<int64_t>> last_read(std::nullopt);
  for (size_t i = 0; i < copies.size(); ++i) {
    PoolPlace place = {
        .action = copies[i].action, .tensor = copies[i].tensor, .offset = placed.offsets[i]};
    const Region region = {place.offset, copies[i].bytes};
    last_read.ForEach(region, [&](const std::optional<int64_t>& read) {
      place.wait_for = std::max(place.wait_for, read);
    });
    if (copies[i].last_read.has_value()) last_read.Set(region, copies[i].last_read);
    layout.places.push_back(place);
  }
  return layout;
}

PoolLayouts LayOutPools(const Plan& plan) {
  const std::array<Copies, kPoolCount> copies = CopiesByPool(plan);
  PoolLayouts layouts;
  for (size_t pool = 0; pool < layouts.size(); ++pool) layouts[pool] = LayOutCopies(copies[pool]);
  return layouts;
}

std::array<int64_t, kPoolCount> PoolPeakBytes(const Plan& plan) {
  const std::array<Copies, kPoolCount> copies = CopiesByPool(plan);
  std::array<int64_t, kPoolCount> peaks = {};
  for (size_t pool = 0; pool < peaks.size(); ++pool)
    peaks[pool] = PlacementLowerBound(BlocksOf(copies[pool]));
  peaks[static_cast<size_t>(Pool::kHost)] += LayOutHostHomes(plan).bytes;
  return peaks;
}

}  // namespace neap
