#include "neap/memory/placement/placement_search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "neap/core/base/tensor.h"
#include "neap/memory/placement/ejection_search.h"

namespace neap {
namespace {

constexpr int64_t kMaxComparisonsPerPair = 4000;  // of blocks in the core
constexpr int64_t kLimits = 12;  // each limit may take one part in this many of the comparisons
constexpr int kMaxFailures = 8;  // consecutive limits under which the blocks did not fit
constexpr int kMaxRounds = 20;   // of splitting; each round finds fewer blocks
// Placing the blocks outside of the core takes so many comparisons at most. Otherwise the placement
// that is known is kept.
constexpr int64_t kMaxComparisonsOfOthers = 1'000'000'000;

using Blocks = std::vector<PlacementBlock>;
using Order = std::vector<size_t>;

// Places blocks one after another, each in the lowest gap that the blocks before it leave.
class OrderedPlacer {
 public:
  explicit OrderedPlacer(const Blocks& blocks) : blocks_(blocks) { placed_.reserve(blocks.size()); }

  int64_t comparisons() const { return comparisons_; }

  // Blocks that are not in `order` get offset 0. The first `kept` blocks of `order` keep their
  // offsets of `previous`.
  PlacementResult Place(const Order& order, size_t kept = 0,
                        const PlacementResult* previous = nullptr) {
    PlacementResult result = {.offsets = std::vector<int64_t>(blocks_.size(), 0),
                              .extent_bytes = 0};
    placed_.clear();
    for (size_t at = 0; at < order.size(); ++at) {
      const size_t i = order[at];
      const int64_t low = at < kept ? previous->offsets[i] : LowestFit(blocks_[i]);
      const Placed placed = {low, low + blocks_[i].bytes, blocks_[i].begin, blocks_[i].end};
      result.offsets[i] = low;
      result.extent_bytes = std::max(result.extent_bytes, placed.high);
      if (at < kept) {
        placed_.push_back(placed);
        if (at + 1 == kept) std::sort(placed_.begin(), placed_.end(), LowerFirst);
      } else {
        placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), placed, LowerFirst),
                       placed);
      }
    }
    return result;
  }

 private:
  struct Placed {
    int64_t low = 0;
    int64_t high = 0;
    int begin = 0;
    int end = 0;
  };
  static bool LowerFirst(const Placed& a, const Placed& b) { return a.low < b.low; }

  int64_t LowestFit(const PlacementBlock& block) {
    int64_t offset = 0;
    auto placed = placed_.begin();
    for (; placed != placed_.end(); ++placed) {
      if (placed->begin >= block.end || block.begin >= placed->end) continue;
      if (placed->low - offset >= block.bytes) break;
      offset = std::max(offset, placed->high);
    }
    comparisons_ += placed - placed_.begin() + 1;
    return offset;
  }

  const Blocks& blocks_;
  std::vector<Placed> placed_;  // in order of `low`
  int64_t comparisons_ = 0;
};

// By block in `some`: the largest sum of live bytes of `some` during its life.
std::vector<int64_t> BusiestLoad(const Blocks& blocks, const Order& some) {
  std::map<int, int64_t> change;
  for (size_t i : some) {
    change[blocks[i].begin] += blocks[i].bytes;
    change[blocks[i].end] -= blocks[i].bytes;
  }
  int64_t live = 0;
  for (auto& [step, bytes] : change) bytes = live += bytes;
  std::vector<int64_t> busiest(blocks.size(), 0);
  for (size_t i : some) {
    for (auto at = change.find(blocks[i].begin); at->first < blocks[i].end; ++at) {
      busiest[i] = std::max(busiest[i], at->second);
    }
  }
  return busiest;
}

class Search {
 public:
  Search(const Blocks& blocks, const SearchGoal& goal, PlacementResult known)
      : blocks_(blocks),
        goal_(goal),
        parts_(SplitPlacement(blocks, goal.target_bytes)),
        placer_(blocks),
        ejection_(blocks, parts_.core),
        most_comparisons_(std::min(goal.most_comparisons, EnoughFor(parts_.core.size()))),
        best_(std::move(known)) {}

  PlacementResult Run() {
    const auto others = static_cast<int64_t>(parts_.others.size());
    const auto all = static_cast<int64_t>(blocks_.size());
    if (SaturatingProduct(others, all) / 2 > kMaxComparisonsOfOthers) return best_;
    TryOrders();
    if (best_order_.has_value()) PlaceOthers();
    return std::move(best_);
  }

 private:
  static int64_t EnoughFor(size_t count) {
    return SaturatingProduct(static_cast<int64_t>(count * count), kMaxComparisonsPerPair);
  }

  // True also if one more order could take more comparisons than are left.
  bool Done() const {
    const int64_t count = static_cast<int64_t>(parts_.core.size());
    return best_.extent_bytes <= goal_.enough_bytes || count == 0 ||
           comparisons() + count * count / 2 > most_comparisons_;
  }

  int64_t comparisons() const { return placer_.comparisons() + ejection_.comparisons(); }

  void TryOrders() {
    if (Done()) return;
    for (Order& order : Orders()) {
      if (Done()) return;
      Consider(std::move(order));
    }
    Squeeze();
  }

  // Largest first, longest-lived first, and by both; busiest steps first, so that those are packed
  // without a gap; and by the known offsets, which places no block higher than before.
  std::vector<Order> Orders() const {
    const std::vector<int64_t> busiest = BusiestLoad(blocks_, parts_.core);
    const auto bytes = [&](size_t i) { return blocks_[i].bytes; };
    const auto length = [&](size_t i) { return int64_t{blocks_[i].end} - blocks_[i].begin; };
    return {
        Sorted([&](size_t i) { return std::tuple(-bytes(i), -length(i)); }),
        Sorted([&](size_t i) {
          return std::tuple(-static_cast<double>(bytes(i)) * static_cast<double>(length(i)));
        }),
        Sorted([&](size_t i) { return std::tuple(-length(i), -bytes(i)); }),
        Sorted([&](size_t i) { return std::tuple(-busiest[i], -bytes(i)); }),
        Sorted([&](size_t i) { return std::tuple(-busiest[i], -length(i)); }),
        Sorted([&](size_t i) { return std::tuple(best_.offsets[i]); }),
    };
  }
  template <typename Key>
  Order Sorted(const Key& key) const {
    Order order = parts_.core;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(a) < key(b); });
    return order;
  }

  // Places the core in this order. The others fit below the target beside any core, so the extent
  // of the core alone decides which is better.
  void Consider(Order order) {
    PlacementResult result = placer_.Place(order);
    if (result.extent_bytes >= best_.extent_bytes) return;
    best_ = std::move(result);
    best_order_ = std::move(order);
  }

  void PlaceOthers() {
    Order all = *best_order_;
    all.insert(all.end(), parts_.others.begin(), parts_.others.end());
    best_ = placer_.Place(all, best_order_->size(), &best_);
  }

  // Lowers the limit by half the distance to the target. After each failure the next step is half
  // as long.
  void Squeeze() {
    for (int failures = 0; failures < kMaxFailures && !Done();) {
      const int64_t excess = best_.extent_bytes - goal_.target_bytes;
      const int64_t limit = best_.extent_bytes - std::max<int64_t>(1, excess >> (failures + 1));
      PlacementResult fitted = best_;
      if (!ejection_.Fit(limit, most_comparisons_ / kLimits, fitted.offsets)) {
        ++failures;
        continue;
      }
      failures = 0;
      // Placing by offset again moves no block up, and closes holes.
      Consider(Sorted([&](size_t i) { return std::tuple(fitted.offsets[i]); }));
    }
  }

  const Blocks& blocks_;
  SearchGoal goal_;
  PlacementCore parts_;
  OrderedPlacer placer_;
  EjectionSearch ejection_;
  int64_t most_comparisons_;
  PlacementResult best_;             // the known one, or one of the core alone
  std::optional<Order> best_order_;  // of the core, unless it is the known one
};

struct Pile {
  int64_t count = 0;
  int64_t bytes = 0;
};

// The number and the bytes of the blocks that begin, or end, up to a step.
class PrefixPiles {
 public:
  void Add(int step, int64_t bytes) { entries_.push_back({step, {1, bytes}}); }
  void Finish() {
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.step < b.step; });
    Pile sum;
    for (Entry& entry : entries_) entry.pile = sum = {sum.count + 1, sum.bytes + entry.pile.bytes};
  }
  Pile UpTo(int step) const {
    const auto after =
        std::upper_bound(entries_.begin(), entries_.end(), step,
                         [](int value, const Entry& entry) { return value < entry.step; });
    return after == entries_.begin() ? Pile{} : std::prev(after)->pile;
  }

 private:
  struct Entry {
    int step = 0;
    Pile pile;
  };
  std::vector<Entry> entries_;
};

}  // namespace

PlacementCore SplitPlacement(const std::vector<PlacementBlock>& blocks, int64_t target_bytes) {
  PlacementCore parts;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].begin < blocks[i].end) parts.core.push_back(i);
  }
  size_t before = 0;
  for (int round = 0; round < kMaxRounds && before != parts.core.size(); ++round) {
    before = parts.core.size();
    PrefixPiles begins;
    PrefixPiles ends;
    for (size_t i : parts.core) {
      begins.Add(blocks[i].begin, blocks[i].bytes);
      ends.Add(blocks[i].end, blocks[i].bytes);
    }
    begins.Finish();
    ends.Finish();
    // k other blocks leave k + 1 gaps below the target. If no gap is large enough, all gaps
    // together are smaller than k + 1 times the block.
    const auto decides = [&](size_t i) {
      const Pile begun = begins.UpTo(blocks[i].end - 1);
      const Pile ended = ends.UpTo(blocks[i].begin);
      const int64_t others = begun.count - ended.count - 1;
      return begun.bytes - ended.bytes + others * blocks[i].bytes > target_bytes;
    };
    const auto end = std::stable_partition(parts.core.begin(), parts.core.end(), decides);
    parts.others.insert(parts.others.begin(), end, parts.core.end());
    parts.core.erase(end, parts.core.end());
  }
  return parts;
}

PlacementResult SearchPlacement(const std::vector<PlacementBlock>& blocks, const SearchGoal& goal,
                                PlacementResult known) {
  return Search(blocks, goal, std::move(known)).Run();
}

}  // namespace neap
