#include "neap/memory/policies/modnn_space.h"

#include <iterator>

namespace neap {

std::optional<Region> ModnnSpace::Allocate(size_t block, int64_t bytes) {
  const absl::StatusOr<Region> region = heap_.Allocate(static_cast<AllocationId>(block), bytes);
  if (!region.ok()) return std::nullopt;
  by_address_[region->offset] = {block, region->end()};
  offsets_[block] = region->offset;
  return *region;
}

void ModnnSpace::Free(size_t block) {
  const auto found = offsets_.find(block);
  heap_.Free(static_cast<AllocationId>(block)).IgnoreError();
  by_address_.erase(found->second);
  offsets_.erase(found);
}

std::vector<size_t> ModnnSpace::Blocks() const {
  std::vector<size_t> blocks;
  for (const auto& [offset, placed] : by_address_) blocks.push_back(placed.block);
  return blocks;
}

void ModnnSpace::VisitSchemes(int64_t bytes, absl::FunctionRef<bool(size_t)> may_leave,
                              absl::FunctionRef<void(absl::Span<const size_t>)> visit) const {
  std::vector<size_t> blocks;
  int64_t begin = 0;  // of the free bytes below the first block
  for (auto first = by_address_.begin(); first != by_address_.end(); ++first) {
    blocks.clear();
    for (auto last = first; last != by_address_.end() && may_leave(last->second.block); ++last) {
      blocks.push_back(last->second.block);
      const auto above = std::next(last);
      const int64_t end = above == by_address_.end() ? capacity_bytes_ : above->first;
      if (end - begin < bytes) continue;
      visit(blocks);
      break;
    }
    begin = first->second.end;
  }
}

}  // namespace neap
