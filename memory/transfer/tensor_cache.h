// Which tensor leaves first when the arena is short: the order behind the tensor cache
// (SuperNeurons 3.3.2, Alg. 2).
//
//   LRU     front  relu5  conv5  relu4 ... conv1  tail     used least recently: leaves first
//   Belady  by next use:  conv1 (31)  conv5 (12) ...       used farthest in the future: leaves
//   first
//
// A planner knows the future, so Belady's order costs it nothing; LRU is what SuperNeurons does,
// and on the last-in-first-out uses of training the two are close.
//
//   auto order = MakeEvictionOrder(EvictionRule::kLru, count);
//   order->Touch(3, next_use);                    // hit, or a miss that has been filled
//   std::optional<size_t> out = order->Victim([&](size_t entry) { return locked[entry]; });
//
// *Complexity*: Touch and Remove O(1) (LRU), O(log n) (Belady); VisitInOrder and Victim O(1) for
// each entry that they come by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace neap {

enum class EvictionRule : uint8_t { kLru, kBelady };

class EvictionOrder {
 public:
  virtual ~EvictionOrder() = default;
  // The entry has just been used and will be used next at position `next_use`.
  virtual void Touch(size_t entry, int next_use) = 0;
  // It is no longer there. Nothing happens if it was not.
  virtual void Remove(size_t entry) = 0;
  // The entries from the first to leave on, until `visit` returns false.
  virtual void VisitInOrder(const std::function<bool(size_t)>& visit) const = 0;
  // The entry to leave first among those that are not locked.
  std::optional<size_t> Victim(const std::function<bool(size_t)>& is_locked) const;
};

// For entries [0, count).
std::unique_ptr<EvictionOrder> MakeEvictionOrder(EvictionRule eviction, size_t count);

}  // namespace neap
