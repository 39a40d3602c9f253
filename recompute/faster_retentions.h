// Faster retentions: what need not be dropped for a peak after all. Private to the rebuild
// frontier.
//
// From given retentions, the steps whose reruns take the longest come first; each gets the fastest
// retention with which the order still has no higher peak:
//
//   rebuilt, 3 reruns  ->  kept, or moved if copies are allowed, or rebuilt only once
//
// Then reruns of what has been rebuilt before are spared one by one, the last ones first, where the
// bytes that keeping it takes are free, and some more.
//
//   FasterRetentions faster(program, retentions, /*hides=*/true);
//   faster.Find(points.RetentionsOf(5), 4 * kGiB, /*may_move=*/false, /*most_walked=*/100'000);
//
// *Ownership*: borrows the program; has its own copy of the retentions.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/recompute/rebuild_points.h"
#include "neap/recompute/retentions.h"
#include "neap/recompute/spared_reruns.h"

namespace neap {

class FasterRetentions {
 public:
  // `retentions` may be any. `hides`: Retentions::Order().
  FasterRetentions(const Program& program, Retentions retentions, bool hides)
      : program_(program), hides_(hides), retentions_(std::move(retentions)), spared_(program) {}

  // The points found from the retentions `from`, without and with spared reruns, if there are any.
  // The peak is at most `most_bytes`, if that of `from` is, and the search ends when its orders
  // have walked over more than `most_walked` runs, and as many for what is spared.
  std::vector<RetentionPoint> Find(const std::vector<Retention>& from, int64_t most_bytes,
                                   bool may_move, int64_t most_walked);

 private:
  // The steps that are rebuilt, those whose reruns take the longest first.
  std::vector<StepId> Rebuilt() const;
  bool Try(StepId step, Retention retention, int64_t most_bytes);
  bool Spare(int64_t most_bytes, int64_t most_walked);
  EvaluatedOrder OrderNow();

  const Program& program_;
  const bool hides_;
  Retentions retentions_;
  const SparedReruns spared_;
  EvaluatedOrder order_;  // of the retentions, in the end without what is spared
  int64_t walked_ = 0;
};

}  // namespace neap
