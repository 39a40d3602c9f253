// Ejection search: makes blocks fit below a limit by pushing others out of their places.
//
// Placing in order never moves a block again, so one large block that comes late spoils an order.
// Here a block that finds no hole takes the place of the blocks that are easiest to place again:
//
//   limit -----      -----      -----
//         . . .      . . .      b b .
//         b b .  ->  . c c  ->  . c c    c needs two rows and takes the place of b, which goes
//         d . .      d c c      d c c    on top
//
// The weight of a block is the square root of its bytes times steps, times one more than the number
// of times it had to push others out. Blocks that are hard to place become too heavy to be pushed
// out, so that the search does not repeat itself for long. This is guided ejection search (Nagata
// and Braysy, 2009, for vehicle routes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "neap/memory/placement/placement.h"

namespace neap {

class EjectionSearch {
 public:
  // *Ownership*: keeps a reference to `blocks`. Blocks that are not in `some` are ignored.
  EjectionSearch(const std::vector<PlacementBlock>& blocks, std::vector<size_t> some);
  EjectionSearch(const EjectionSearch&) = delete;
  EjectionSearch& operator=(const EjectionSearch&) = delete;

  // Changes `offsets` to a placement that ends at or below `limit_bytes`. Blocks that end there
  // already must not overlap each other. Returns false, and changes nothing, if it would take more
  // than `most_comparisons` or if a block is larger than the limit.
  // *Complexity*: a move takes at most four times as many comparisons as there are blocks.
  bool Fit(int64_t limit_bytes, int64_t most_comparisons, std::vector<int64_t>& offsets);

  int64_t comparisons() const { return comparisons_; }

 private:
  // The lower or upper end of a block.
  struct Edge {
    int64_t at = 0;
    int begin = 0;
    int end = 0;
    size_t block = 0;
  };
  struct Place {
    int64_t offset = 0;
    int64_t weight = 0;  // of the blocks that overlap it
  };
  using Edges = std::vector<Edge>;  // in order of `at`
  class Lightest;
  static bool Before(const Edge& a, const Edge& b) {
    return a.at != b.at ? a.at < b.at : a.block < b.block;
  }

  // Weights change only while a block is not in unplaced_, so that it remains a heap.
  auto Lighter() const {
    return [this](size_t a, size_t b) { return weights_[a] < weights_[b]; };
  }

  void Start(int64_t limit_bytes, const std::vector<int64_t>& offsets);
  size_t TakeHeaviest();
  static std::span<const Edge> Near(const PlacementBlock& block, const Edges& all, Edges& buffer);
  Place FindPlace(const PlacementBlock& block);
  void TryOnTop(int64_t bytes, Lightest& lightest) const;
  void TryBelow(int64_t bytes, Lightest& lightest) const;
  void PushOut(const Place& place, int64_t bytes);
  void Put(size_t block, int64_t offset);

  const std::vector<PlacementBlock>& blocks_;
  std::vector<size_t> some_;
  std::vector<int64_t> base_weights_;  // by block, as the next two
  std::vector<int64_t> weights_;
  std::vector<int64_t> offsets_;
  int64_t limit_bytes_ = 0;
  std::vector<size_t> unplaced_;  // a heap, the heaviest first
  Edges lows_;                    // of placed blocks, as the next one
  Edges highs_;
  std::span<const Edge> near_lows_;  // of blocks that share a step with the block to be placed
  std::span<const Edge> near_highs_;
  Edges near_lows_buffer_;
  Edges near_highs_buffer_;
  int64_t comparisons_ = 0;
  std::minstd_rand random_{1};
};

}  // namespace neap
