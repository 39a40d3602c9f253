// Rebuild points: orders of runs with what they rebuild and move, each with its peak, the time that
// it adds and the bytes that it moves; and the list of those that the rebuild frontier has found.
//
//   RebuildPoints points(/*most_better=*/0);
//   points.Add(PointOf(order, /*hides_copies=*/true, retentions));
//   if (points.IsWorthwhile(other, true)) points.Add(PointOf(other, true, retentions));
//   const std::vector<RebuildPoint> best = std::move(points).Best();
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neap/core/program/lifetimes.h"
#include "neap/recompute/retentions.h"

namespace neap {

struct RebuildPoint {
  ComputeSequence runs;
  int64_t peak_bytes = 0;  // the largest sum of live bytes, without workspaces
  // The time of all reruns, the time by which first runs take longer because of them, that of
  // copies that last longer than forward, and the time by which copies slow down other runs.
  double seconds = 0;
  int64_t moved_bytes = 0;  // to the host, and as many back
  // Whether the peak counts what is moved until it is copied, and from when its copy back begins
  // (recompute/retentions.h); otherwise only around its uses.
  bool hides_copies = true;
  // Whether reruns are spared (recompute/spared_reruns.h). More bytes are then live for long, and
  // places are harder to find.
  bool spares = false;
  std::vector<bool> moved = {};  // by TensorId, none if empty: on the host before backward
};

// A point with the retentions that lead to it, perhaps less reruns that are spared
// (recompute/spared_reruns.h).
struct RetentionPoint {
  RebuildPoint point;
  std::vector<Retention> retentions;  // by StepId
};

// `order` is that of the retentions, perhaps less reruns that are spared.
RetentionPoint PointOf(const EvaluatedOrder& order, bool hides_copies,
                       const Retentions& retentions);

class RebuildPoints {
 public:
  // `most_better`: how many other points may be as good as one that is worthwhile; the first one
  // must not be. A point is as good as another one that has no lower peak, takes no less time and
  // moves no fewer bytes, if both count their peaks in the same way, or it moves nothing, and if
  // neither or both spare reruns. A plan has to move what its point moves, whether or not
  // computation hides it.
  explicit RebuildPoints(ptrdiff_t most_better) : most_better_(most_better) {}

  void Add(RetentionPoint point);
  bool IsWorthwhile(const EvaluatedOrder& order, bool hides_copies) const;

  size_t size() const { return points_.size(); }
  const RebuildPoint& operator[](size_t i) const { return points_[i]; }
  const std::vector<Retention>& RetentionsOf(size_t i) const { return retentions_[i]; }

  // The first point, and the others that are worthwhile, each order once, in descending order of
  // their peaks.
  std::vector<RebuildPoint> Best() &&;

 private:
  ptrdiff_t most_better_;
  std::vector<RebuildPoint> points_;
  std::vector<std::vector<Retention>> retentions_;  // by point
};

}  // namespace neap
