// The memory of moDNN's scheduler (TPDS 2019, 3.3 and 5.2.1): exact fit, then first fit, and the
// offloading schemes: neighbours whose bytes together make room for an allocation. Private to
// memory/policies/modnn.cc.
//
//   (1)(2)(3) free (4)(5)(6)     where block 4 must stay: (1)(2), or (2)(3) and the free bytes
//                                above, or (5)(6)
//
//   ModnnSpace space(64 * kMiB);
//   if (!space.Allocate(7, bytes).has_value()) space.VisitSchemes(bytes, may_leave, visit);
//
// *Complexity*: VisitSchemes O(blocks x those of a scheme).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "neap/core/base/region.h"
#include "neap/memory/placement/heap.h"

namespace neap {

class ModnnSpace {
 public:
  explicit ModnnSpace(int64_t capacity_bytes)
      : capacity_bytes_(capacity_bytes), heap_(capacity_bytes, Fit::kExactFitFirstFit) {}

  // Absent if no hole is large enough. The caller chooses ids of blocks.
  std::optional<Region> Allocate(size_t block, int64_t bytes);
  void Free(size_t block);
  int64_t LargestFreeBytes() const { return heap_.LargestFreeBytes(); }
  int64_t FreeBytes() const { return capacity_bytes_ - heap_.used_bytes(); }
  // In address order.
  std::vector<size_t> Blocks() const;

  // Visits all schemes that make room for `bytes`, from low to high addresses: for each first
  // block, the fewest neighbours above it. A scheme has no block for which `may_leave` is false.
  void VisitSchemes(int64_t bytes, absl::FunctionRef<bool(size_t)> may_leave,
                    absl::FunctionRef<void(absl::Span<const size_t>)> visit) const;

 private:
  struct Placed {
    size_t block = 0;
    int64_t end = 0;
  };

  int64_t capacity_bytes_;
  Heap heap_;
  std::map<int64_t, Placed> by_address_;
  std::map<size_t, int64_t> offsets_;  // by block
};

}  // namespace neap
