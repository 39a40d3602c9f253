#include "neap/memory/placement/ejection_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "neap/core/base/units.h"

namespace neap {

// Keeps the offset with the smallest weight; a random one among equals.
class EjectionSearch::Lightest {
 public:
  Lightest(int64_t highest_offset, std::minstd_rand& random)
      : highest_offset_(highest_offset), random_(random) {}

  void Consider(int64_t offset, int64_t weight) {
    if (offset < 0 || offset > highest_offset_ || weight > best_.weight) return;
    ties_ = weight < best_.weight ? 1 : ties_ + 1;
    if (random_() % ties_ == 0) best_ = {.offset = offset, .weight = weight};
  }
  int64_t highest_offset() const { return highest_offset_; }
  const Place& best() const { return best_; }

 private:
  int64_t highest_offset_;
  std::minstd_rand& random_;
  Place best_ = {.offset = 0, .weight = std::numeric_limits<int64_t>::max()};
  uint32_t ties_ = 0;
};

EjectionSearch::EjectionSearch(const std::vector<PlacementBlock>& blocks, std::vector<size_t> some)
    : blocks_(blocks), some_(std::move(some)), base_weights_(blocks.size(), 0) {
  near_lows_buffer_.resize(some_.size());
  near_highs_buffer_.resize(some_.size());
  for (size_t i : some_) {
    const double kib = static_cast<double>(blocks[i].bytes) / static_cast<double>(kKiB);
    const double steps = static_cast<double>(blocks[i].end) - blocks[i].begin;
    base_weights_[i] = 1 + static_cast<int64_t>(std::sqrt(kib * steps));
  }
}

bool EjectionSearch::Fit(int64_t limit_bytes, int64_t most_comparisons,
                         std::vector<int64_t>& offsets) {
  Start(limit_bytes, offsets);
  const int64_t stop = comparisons_ + most_comparisons;
  while (!unplaced_.empty()) {
    const size_t block = TakeHeaviest();
    const int64_t bytes = blocks_[block].bytes;
    if (bytes > limit_bytes || comparisons_ > stop) return false;
    const Place place = FindPlace(blocks_[block]);
    if (place.weight > 0) {
      weights_[block] += base_weights_[block];
      PushOut(place, bytes);
    }
    Put(block, place.offset);
  }
  for (size_t i : some_) offsets[i] = offsets_[i];
  return true;
}

void EjectionSearch::Start(int64_t limit_bytes, const std::vector<int64_t>& offsets) {
  limit_bytes_ = limit_bytes;
  weights_ = base_weights_;
  offsets_ = offsets;
  unplaced_.clear();
  lows_.clear();
  highs_.clear();
  for (size_t i : some_) {
    if (offsets[i] + blocks_[i].bytes > limit_bytes) {
      unplaced_.push_back(i);
    } else {
      lows_.push_back({offsets[i], blocks_[i].begin, blocks_[i].end, i});
      highs_.push_back({offsets[i] + blocks_[i].bytes, blocks_[i].begin, blocks_[i].end, i});
    }
  }
  std::make_heap(unplaced_.begin(), unplaced_.end(), Lighter());
  for (Edges* edges : {&lows_, &highs_}) std::sort(edges->begin(), edges->end(), Before);
}

// The heaviest block is placed first, while there are still several places for it.
size_t EjectionSearch::TakeHeaviest() {
  std::pop_heap(unplaced_.begin(), unplaced_.end(), Lighter());
  const size_t block = unplaced_.back();
  unplaced_.pop_back();
  return block;
}

// The edges of blocks that share a step with `block`. Most of the time is spent here, so there is
// no branch, which could not be predicted.
std::span<const EjectionSearch::Edge> EjectionSearch::Near(const PlacementBlock& block,
                                                           const Edges& all, Edges& buffer) {
  size_t count = 0;
  for (const Edge& edge : all) {
    buffer[count] = edge;
    count +=
        static_cast<size_t>(edge.begin < block.end) & static_cast<size_t>(block.begin < edge.end);
  }
  return {buffer.data(), count};
}

// Considers only places that touch another block, the bottom or the limit. Any other place can be
// shifted to one of these without overlapping more blocks.
EjectionSearch::Place EjectionSearch::FindPlace(const PlacementBlock& block) {
  near_lows_ = Near(block, lows_, near_lows_buffer_);
  near_highs_ = Near(block, highs_, near_highs_buffer_);
  comparisons_ += static_cast<int64_t>(2 * (lows_.size() + near_lows_.size()));
  Lightest lightest(limit_bytes_ - block.bytes, random_);
  TryOnTop(block.bytes, lightest);
  TryBelow(block.bytes, lightest);
  return lightest.best();
}

// Considers the bottom and the top of each block. Going up, the overlap with a block begins at its
// lower end and ends at its upper end.
void EjectionSearch::TryOnTop(int64_t bytes, Lightest& lightest) const {
  int64_t weight = 0;
  auto low = near_lows_.begin();
  auto high = near_highs_.begin();
  for (int64_t offset = 0; offset <= lightest.highest_offset();) {
    for (; low != near_lows_.end() && low->at < offset + bytes; ++low)
      weight += weights_[low->block];
    for (; high != near_highs_.end() && high->at <= offset; ++high) weight -= weights_[high->block];
    lightest.Consider(offset, weight);
    if (high == near_highs_.end()) return;
    offset = high->at;
  }
}

// Considers the places right below each block and right below the limit.
void EjectionSearch::TryBelow(int64_t bytes, Lightest& lightest) const {
  int64_t begun = 0;
  int64_t ended = 0;
  auto high = near_highs_.begin();
  const auto try_at = [&](int64_t offset) {
    for (; high != near_highs_.end() && high->at <= offset; ++high) ended += weights_[high->block];
    lightest.Consider(offset, begun - ended);
  };
  for (auto low = near_lows_.begin(); low != near_lows_.end(); ++low) {
    if (low == near_lows_.begin() || std::prev(low)->at != low->at) try_at(low->at - bytes);
    begun += weights_[low->block];
  }
  try_at(lightest.highest_offset());
}

void EjectionSearch::PushOut(const Place& place, int64_t bytes) {
  for (const Edge& low : near_lows_) {
    if (low.at >= place.offset + bytes || low.at + blocks_[low.block].bytes <= place.offset)
      continue;
    unplaced_.push_back(low.block);
    std::push_heap(unplaced_.begin(), unplaced_.end(), Lighter());
    Edge high = low;
    high.at += blocks_[low.block].bytes;
    lows_.erase(std::lower_bound(lows_.begin(), lows_.end(), low, Before));
    highs_.erase(std::lower_bound(highs_.begin(), highs_.end(), high, Before));
  }
}

void EjectionSearch::Put(size_t block, int64_t offset) {
  offsets_[block] = offset;
  Edge edge = {offset, blocks_[block].begin, blocks_[block].end, block};
  lows_.insert(std::lower_bound(lows_.begin(), lows_.end(), edge, Before), edge);
  edge.at += blocks_[block].bytes;
  highs_.insert(std::lower_bound(highs_.begin(), highs_.end(), edge, Before), edge);
}

}  // namespace neap
