// The ladder of an order of runs: the memory limits under which its candidates are tried, from
// what the order needs with everything evicted up to where nothing has to move.
//
//   limit
//   |====== nothing has to move       on a linear and on a geometric scale
//   |======
//   |======                           around the minimum, and some below: residency counts bytes,
//   |====== minimum                   and placement needs room for gaps
//   |======
//
// The ladder depends neither on the budget nor on the rule for workspaces, so that a larger budget,
// and WorkspaceRule::kBest, find whatever the others find.
//
//   const Ladder ladder(order, residencies);
//   for (const int64_t limit_bytes : ladder.limits_bytes()) try_limit(limit_bytes);
//
// *Complexity*: a residency for each of the two ends. Short orders also have a level, and need a
// residency, for each different residency.
#pragma once

#include <cstdint>
#include <vector>

#include "neap/memory/search/residencies.h"
#include "neap/memory/search/search_order.h"

namespace neap {

class Ladder {
 public:
  // *Ownership*: borrows both.
  Ladder(const SearchOrder& order, const Residencies& residencies);

  // Limits of usage without persistent tensors, in bytes, the highest first.
  const std::vector<int64_t>& limits_bytes() const { return limits_bytes_; }

 private:
  int64_t BytesToKeepAll(const std::vector<int64_t>& workspaces) const;
  // From the minimum up to `most_bytes`.
  void AddScales(int64_t most_bytes);
  // From `most_bytes` down to the minimum, the most bytes of each residency.
  void AddResidencies(int64_t most_bytes);
  void AddAroundMinimum();

  const SearchOrder& order_;
  const Residencies& residencies_;
  int64_t least_bytes_ = 0;
  int64_t count_ = 0;  // of the levels on each scale
  std::vector<int64_t> limits_bytes_;
};

}  // namespace neap
