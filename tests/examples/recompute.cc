// The examples of the headers under recompute/, compiled but not run.
#include "neap/recompute/recompute.h"

#include <cstdint>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/recompute/cost_aware.h"
#include "neap/recompute/faster_retentions.h"
#include "neap/recompute/live_sweep.h"
#include "neap/recompute/rebuild_frontier.h"
#include "neap/recompute/rebuild_points.h"
#include "neap/recompute/rerun_order.h"
#include "neap/recompute/retentions.h"
#include "neap/recompute/segments.h"
#include "neap/recompute/spared_reruns.h"

namespace neap {

void CostAwareExample(const Program& program, int64_t bound_bytes) {
  Segments segments = CheckpointSegments(program);
  MeetBound(program, bound_bytes, segments);
  const ComputeSequence runs = CostAwareOrder(program, segments, bound_bytes);
}

void RecomputeExample(const Program& program) {
  const RunOrder order = CostAware(program);
  ExtraForwards(order.runs);
}

void RerunOrderExample(const Program& program) {
  const Segments segments = CheckpointSegments(program);
  const ComputeSequence runs = OrderReruns(program, segments, RerunMode::kSpeedCentric);
  ExtraForwards(runs);
}

void LiveSweepExample(const Program& program, const ComputeSequence& runs,
                      const std::vector<bool>& moved) {
  LiveSweep sweep(program, /*in_place=*/true);
  sweep.Walk(runs, moved);
  sweep.changes().at(8);
  sweep.absences().front().begin;
}

void RetentionsExample(const Program& program, const RebuildPrices& prices, StepId step) {
  Retentions retentions(program, prices);
  retentions.Set(step, Retention::kRebuiltOnce);
  retentions.Order(/*hidden=*/true).peak_bytes;
}

void RebuildPointsExample(const EvaluatedOrder& order, const EvaluatedOrder& other,
                          const Retentions& retentions) {
  RebuildPoints points(/*most_better=*/0);
  points.Add(PointOf(order, /*hides_copies=*/true, retentions));
  if (points.IsWorthwhile(other, true)) points.Add(PointOf(other, true, retentions));
  const std::vector<RebuildPoint> best = std::move(points).Best();
}

void FasterRetentionsExample(const Program& program, const Retentions& retentions,
                             const RebuildPoints& points) {
  FasterRetentions faster(program, retentions, /*hides=*/true);
  faster.Find(points.RetentionsOf(5), 4 * kGiB, /*may_move=*/false, /*most_walked=*/100'000);
}

void SparedRerunsExample(const Program& program, const EvaluatedOrder& order) {
  const SparedReruns spared(program);
  ComputeSequence runs = spared.Without(order.runs, /*position=*/307);
}

void RebuildFrontierExample(const Program& program, const RebuildPrices& prices) {
  const std::vector<RebuildPoint> points = RebuildFrontier(program, prices);
  points.front().runs;
  points.back().peak_bytes;
}

}  // namespace neap
