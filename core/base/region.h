// Regions of a block of memory that a plan subdivides: the arena, or a pool for copies outside it.
#pragma once

#include <cstdint>

namespace neap {

// Offsets and sizes of regions are multiples of this: the block of SuperNeurons' heap (3.2.1).
inline constexpr int64_t kBlockBytes = 1024;

// The bytes [offset, offset + bytes).
struct Region {
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t end() const { return offset + bytes; }
  friend bool operator==(const Region&, const Region&) = default;
};

}  // namespace neap
