#include "neap/recompute/recompute.h"

#include "neap/recompute/cost_aware.h"
#include "neap/recompute/layerwise_bound.h"
#include "neap/recompute/rerun_order.h"
#include "neap/recompute/segments.h"

namespace neap {
namespace {

// `order_runs` gets the segments between checkpoints, and the bound that they meet.
template <typename OrderRuns>
RunOrder WithCheckpoints(const Program& program, const OrderRuns& order_runs) {
  if (program.options.mode == Mode::kInference) return WithoutReruns(program);
  const int64_t bound_bytes = BoundLayerwise(program, CanBeInPlace(program)).bytes;
  Segments segments = CheckpointSegments(program);
  MeetBound(program, bound_bytes, segments);
  return {.runs = order_runs(segments, bound_bytes), .checkpoints = segments.checkpoints};
}

RunOrder InMode(const Program& program, RerunMode mode) {
  return WithCheckpoints(program, [&](const Segments& segments, int64_t /*bound_bytes*/) {
    return OrderReruns(program, segments, mode);
  });
}

}  // namespace

RunOrder WithoutReruns(const Program& program) { return {.runs = ProgramOrder(program)}; }

RunOrder SpeedCentric(const Program& program) { return InMode(program, RerunMode::kSpeedCentric); }

RunOrder MemoryCentric(const Program& program) {
  return InMode(program, RerunMode::kMemoryCentric);
}

RunOrder CostAware(const Program& program) {
  return WithCheckpoints(program, [&](const Segments& segments, int64_t bound_bytes) {
    return CostAwareOrder(program, segments, bound_bytes);
  });
}

}  // namespace neap
