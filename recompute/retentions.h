// Retentions: what becomes, between forward and backward, of the results that backward reads, and
// the order of runs and the peak that follow from it. Private to the rebuild frontier.
//
// All results of a step have the same retention, except that tiny ones stay where the others move.
// A retention changes the bytes at every run, not only where a result is dropped, because a rerun
// needs its own operands:
//
//           forward      |     backward
//   kept    ==================================
//   moved   ======....................========   on the host from its last use in forward until
//                                                its next use
//   rebuilt ======...................,========   a rerun, with its operands, at the comma
//
// Copies take time. While copies to the host are *hidden*, compute does not wait for them: a result
// that is moved still has its bytes until it is copied, and has them again from the moment at which
// its copy back begins. Each copy engine works through its queue in order:
//
//           conv  bn  conv  bn ...            bn'  conv'
//   moved   =====-----                    ....=====       - to the host, . and back
//
// Otherwise it has none between its uses, as if compute waited.
//
//   Retentions retentions(program, prices);
//   retentions.Set(step, Retention::kRebuiltOnce);
//   retentions.Order(/*hidden=*/true).peak_bytes;
//
// *Ownership*: borrows the program and the prices. *Complexity*: Order() walks over all runs.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"
#include "neap/recompute/cost_aware.h"
#include "neap/recompute/live_sweep.h"
#include "neap/recompute/rebuild_prices.h"
#include "neap/recompute/rerun_order.h"
#include "neap/recompute/segments.h"

namespace neap {

// A step with the retention kPinned is kept for good: rebuilding its results caused the peak.
enum class Retention : uint8_t { kKept, kPinned, kMoved, kRebuiltOnce, kRebuiltEachTime };
inline bool IsRebuilt(Retention retention) {
  return retention == Retention::kRebuiltOnce || retention == Retention::kRebuiltEachTime;
}

// The order of runs that retentions lead to, and its bytes, without persistent tensors and
// workspaces.
struct EvaluatedOrder {
  ComputeSequence runs;
  int64_t peak_bytes = 0;
  int peak_at = 0;          // the first position with that many bytes
  int64_t at_peak = 0;      // how many positions have that many
  double seconds = 0;       // RebuildPoint::seconds
  int64_t moved_bytes = 0;  // RebuildPoint::moved_bytes

  bool IsLowerThan(const EvaluatedOrder& other) const {
    return std::pair(peak_bytes, at_peak) < std::pair(other.peak_bytes, other.at_peak);
  }
};

class Retentions {
 public:
  Retentions(const Program& program, const RebuildPrices& prices)
      : program_(program),
        prices_(prices),
        segments_(NothingDropped(program)),
        retentions_(program.steps.size(), Retention::kKept),
        modes_(segments_.steps.size(), RerunMode::kOnDemand),
        moved_(program.tensors.size(), false),
        sweep_(program, CanBeInPlace(program)) {
    for (const Step& step : program.steps)
      forward_seconds_ += step.phase == Phase::kForward ? prices.run_seconds[step.id.index()] : 0;
  }

  Retention Of(StepId step) const { return retentions_[step.index()]; }
  // Only for steps that CanBeRebuilt().
  void Set(StepId step, Retention retention);
  const std::vector<Retention>& all() const { return retentions_; }  // by StepId
  void Restore(const std::vector<Retention>& retentions);

  bool CanBeRebuilt(StepId step) const;
  // The forward step that writes the tensor.
  std::optional<StepId> Producer(TensorId tensor) const {
    return segments_.producer[tensor.index()];
  }
  bool IsInBackward(TensorId tensor) const { return segments_.in_backward[tensor.index()]; }

  double RerunSeconds(StepId step) const { return prices_.rerun_seconds[step.index()]; }
  // With what the first run takes longer.
  double FirstRerunSeconds(StepId step) const {
    return RerunSeconds(step) + prices_.first_run_seconds[step.index()];
  }

  EvaluatedOrder Order(bool hidden);
  // The same for another order with these retentions, of which some reruns are spared
  // (recompute/spared_reruns.h).
  EvaluatedOrder Evaluate(ComputeSequence runs, bool hidden);
  // How many positions of the order that was evaluated last have more live bytes.
  int64_t PositionsAbove(int64_t bytes);
  // The tensors that are on the host between forward and backward, by TensorId; empty if none.
  std::vector<bool> Moved() const;

 private:
  void HideCopies(const ComputeSequence& runs, std::vector<Absence>& absences) const;
  double SecondsOf(const ComputeSequence& runs, int64_t moved_bytes) const;

  const Program& program_;
  const RebuildPrices& prices_;
  Segments segments_;                  // a segment is one step
  std::vector<Retention> retentions_;  // by StepId
  std::vector<RerunMode> modes_;       // by segment
  std::vector<bool> moved_;            // by TensorId
  double forward_seconds_ = 0;         // of all first runs of forward steps
  LiveSweep sweep_;
};

}  // namespace neap
