// Rebuild points: orders of runs with what they rebuild and move, each with its peak, the time that
// it adds and the bytes that it moves; and the list of those that the rebuild frontier has found.
//
//   RebuildPoints points(/*most_better=*/0);
//   points.Add(PointOf(order, /*hides_copies=*/true, fates));
//   if (points.IsWorthwhile(other, true)) points.Add(PointOf(other, true, fates));
//   const std::vector<RebuildPoint> best = std::move(points).Best();
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neap/core/program/lifetimes.h"
#include "neap/recompute/fates.h"

namespace neap {

struct RebuildPoint {
  ComputeSequence runs;
  int64_t peak_bytes = 0;  // the largest sum of live bytes, without workspaces
  // Of all reruns, what first runs take longer because of them, copies that last longer than
  // forward, and what copies slow down other runs by.
  double seconds = 0;
  int64_t moved_bytes = 0;  // to the host, and as many back
  // Whether the peak counts what is moved until it is copied, and from when its copy back begins
  // (recompute/fates.h); otherwise only around its uses.
  bool hides_copies = true;
  // Whether reruns are spared (recompute/spared_reruns.h). More bytes are then live for long, and
  // places are harder to find.
  bool spares = false;
  std::vector<bool> moved = {};  // by TensorId, none if empty: on the host before backward
};

// A point with the fates that lead to it, perhaps less reruns that are spared
// (recompute/spared_reruns.h).
struct FatedPoint {
  RebuildPoint point;
  std::vector<Fate> fates;  // by StepId
};

// `order` is that of the fates, perhaps less reruns that are spared.
FatedPoint PointOf(const FatedOrder& order, bool hides_copies, const Fates& fates);

class RebuildPoints {
 public:
  // `most_better`: how many other points may be as good as one that is worthwhile; the first one
  // must not be. A point is as good as another one that has no lower peak, takes no less time and
  // moves no fewer bytes, if both count their peaks in the same way, or it moves nothing, and if
  // neither or both spare reruns. A plan has to move what its point moves, whether or not
  // computation hides it.
  explicit RebuildPoints(ptrdiff_t most_better) : most_better_(most_better) {}

  void Add(FatedPoint point);
  bool IsWorthwhile(const FatedOrder& order, bool hides_copies) const;

  size_t size() const { return points_.size(); }
  const RebuildPoint& operator[](size_t i) const { return points_[i]; }
  const std::vector<Fate>& FatesOf(size_t i) const { return fates_[i]; }

  // The first point, and the others that are worthwhile, each order once, in descending order of
  // their peaks.
  std::vector<RebuildPoint> Best() &&;

 private:
  ptrdiff_t most_better_;
  std::vector<RebuildPoint> points_;
  std::vector<std::vector<Fate>> fates_;  // by point
};

}  // namespace neap
