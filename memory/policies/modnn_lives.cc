#include "neap/memory/policies/modnn_lives.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "neap/memory/placement/placement.h"
#include "neap/memory/transfer/tensor_cache.h"

namespace neap {

ModnnLives::ModnnLives(const ScheduleRequest& request)
    : program_(request.program),
      liveness_(request.liveness),
      configurations_(request.configurations),
      fixed_offset_(request.liveness.lives.size()) {
  for (const absl::Span<const Configuration>& list : configurations_) {
    double least = std::numeric_limits<double>::infinity();
    for (const Configuration& one : list) least = std::min(least, one.seconds);
    until_.push_back(until_.back() + least);
  }
  PlaceFixed();
  Expect();
}

void ModnnLives::PlaceFixed() {
  std::vector<PlacementBlock> blocks;
  std::vector<size_t> of;
  for (size_t i = 0; i < size(); ++i) {
    if (IsApart(i) || (IsCached(tensor(i).role) && !IsResult(i))) continue;
    blocks.push_back({.bytes = BytesOf(i), .begin = life(i).begin, .end = life(i).end});
    of.push_back(i);
  }
  const PlacementResult placed = PlaceOffline(blocks);
  for (size_t b = 0; b < of.size(); ++b) fixed_offset_[of[b]] = placed.offsets[b];
  fixed_bytes_ = placed.extent_bytes;
}

std::optional<size_t> ModnnLives::TakenOver(size_t i, int position) const {
  const std::optional<size_t>& from = liveness_.replaces[i];
  if (life(i).begin != position || !from.has_value()) return std::nullopt;
  if (IsFixed(i) || IsFixed(*from) || IsApart(*from)) return std::nullopt;
  return from;
}

const Configuration& ModnnLives::Smallest(int position) const {
  const absl::Span<const Configuration> list = Configurations(position);
  return *std::min_element(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return a.workspace_bytes < b.workspace_bytes;
  });
}

void ModnnLives::Expect() {
  expected_.assign(liveness_.runs.size() + 1, 0);
  for (size_t i = 0; i < size(); ++i) {
    const std::vector<int>& uses = life(i).uses;
    if (IsApart(i) || IsFixed(i) || IsFromHost(i) || uses.size() < 2) continue;
    expected_[static_cast<size_t>(uses[0]) + 1] += BytesOf(i);
    expected_[static_cast<size_t>(uses[1])] -= BytesOf(i);
  }
  std::partial_sum(expected_.begin(), expected_.end(), expected_.begin());
  for (size_t run = 0; run < liveness_.runs.size(); ++run) {
    const int position = static_cast<int>(run);
    expected_[run] += RoundUp(Smallest(position).workspace_bytes, kBlockBytes);
    for (const size_t i : liveness_.UsedBy(position)) {
      if (!IsApart(i) && !IsFixed(i) && !TakenOver(i, position).has_value())
        expected_[run] += BytesOf(i);
    }
  }
}

}  // namespace neap
