// The tensor cache (SuperNeurons 3.3.2, Algorithm 2): tensors stay in the arena until their bytes
// are needed; then those at the tail of a list are evicted to the host.
//
//   front                                       tail
//   relu5 - conv5 - relu4 - conv4 ... relu1 - conv1        conv5' reads relu4 and conv5: both are
//           locked  locked                    evicted      locked, and conv1 makes room
//
//   Algorithm 2   here
//   the list      one of two orders: LRU, or Belady's, in which the tail is the entry that is used
//                 farthest in the future. A planner knows the future, so that order costs it
//                 nothing; on the last-in-first-out uses of training the two are close.
//   LRU.in        In()
//   LRU.out       Out(): it names the victims, and the caller evicts them
//   T.lock        `is_locked`: an operand of the current run; under Evictable::kOnlyCopied also
//                 every tensor whose value the host does not have
//   Check         StayWriter::Check in memory/transfer/residency.cc. The gain rule
//                 (memory/engines/gain_rule.h) has a second list, from which it takes the tensors
//                 that a larger workspace would evict.
//   malloc fails  the usage would exceed a memory limit of the ladder (memory/search/plan_search.h)
//
// Where it differs from the paper:
//   * The paper checks one tensor after another while a layer runs. A planner checks all operands
//     of a run at once, and makes room for all that miss and for the run's workspace. So no operand
//     is evicted to make room for another.
//   * Operands move to the front after the run, not before, and in the order in which their lives
//     begin, not in the order in which the layer names them.
//   * Labels and parameter gradients are not in the list (IsCached), and so never evicted.
//   * Nothing is evicted for the first run: the batch is in the arena from the beginning.
//   * A tensor leaves the list with its last use (liveness, 3.2), and is then not copied, except an
//     offloaded parameter that has changed: the next iteration needs its value.
//   * A victim whose value the host already has is not copied a second time.
//
//   auto cache = MakeTensorCache(EvictionRule::kLru, count);
//   cache->In(3, next_use);
//   for (size_t victim : cache->Out(Excess(used, missing, limit), size_of, is_locked)) {
//     cache->Remove(victim);
//   }
//
// *Complexity*: In and Remove O(1) (LRU), O(log n) (Belady); VisitFromTail and Out O(1) for each
// entry visited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "neap/core/base/tensor.h"
#include "neap/memory/transfer/usage.h"

namespace neap {

enum class EvictionRule : uint8_t { kLru, kBelady };

class TensorCache {
 public:
  virtual ~TensorCache() = default;
  // LRU.in, and the hit of Check: the entry has just been used, and moves to the front. `next_use`
  // is the position of the run that uses it next.
  virtual void In(size_t entry, int next_use) = 0;
  // Takes the entry out of the list, if it is there: it was evicted, or has had its last use.
  virtual void Remove(size_t entry) = 0;
  // Visits entries in the order in which they would be evicted, until `visit` returns false.
  virtual void VisitFromTail(absl::FunctionRef<bool(size_t)> visit) const = 0;

  // LRU.out: the entries to evict, in order, so that usage falls by `excess`: from the tail,
  // without locked ones. Fewer than that if all others are locked.
  std::vector<size_t> Out(Usage excess, absl::FunctionRef<Usage(size_t)> size_of,
                          absl::FunctionRef<bool(size_t)> is_locked) const;
};

// For entries [0, count).
std::unique_ptr<TensorCache> MakeTensorCache(EvictionRule eviction, size_t count);

// Whether tensors of this role go through the cache. Labels and parameter gradients do not: they
// are small, or used at once.
constexpr bool IsCached(Role role) {
  return CountsAsActivation(role) || role == Role::kInput || IsPersistent(role);
}

}  // namespace neap
