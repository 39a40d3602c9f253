#include "neap/core/verifier/verifier.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/verifier/given.h"
#include "neap/core/verifier/order.h"
#include "neap/core/verifier/places.h"
#include "neap/core/verifier/pools.h"
#include "neap/core/verifier/shards.h"
#include "neap/core/verifier/site.h"
#include "neap/core/verifier/sums.h"
#include "neap/core/verifier/values.h"

namespace neap {
namespace verifier {
namespace {

// Walks the actions in issue order. Places and values can be tracked in that order although the
// streams run concurrently, because Order proves that conflicting accesses happen in it.
class Checker {
 public:
  // The tables must have been checked.
  Checker(const Plan& plan, Site& site)
      : plan_(plan),
        site_(site),
        first_engines_(plan.steps.size()),
        places_(plan, site),
        values_(plan, site),
        order_(plan, site),
        given_(plan, site),
        pools_(plan, site),
        sums_(plan, site),
        shards_(plan, site) {}

  absl::Status Check() {
    RETURN_IF_ERROR(pools_.CheckResidents());
    RETURN_IF_ERROR(places_.CheckIncoming());
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      site_.MoveTo(i);
      RETURN_IF_ERROR(
          std::visit([this](const auto& action) { return Apply(action); }, plan_.actions[i]));
    }
    site_.LeaveActions();
    RETURN_IF_ERROR(CheckEnd());
    return CheckTotals();
  }

 private:
  absl::Status CheckId(TensorId tensor) const {
    if (tensor.value >= 0 && tensor.index() < plan_.tensors.size()) return absl::OkStatus();
    return site_.Fault(PlanFault::kId, "there is no such tensor");
  }
  bool IsExternal(TensorId tensor) const { return plan_.tensors[tensor.index()].is_external; }
  // Whether an action may place or move the tensor.
  absl::Status CheckInArena(TensorId tensor) const {
    if (!IsExternal(tensor)) return absl::OkStatus();
    return site_.Fault(PlanFault::kExternal,
                       absl::StrCat(site_.Describe(tensor), " is in memory of the caller's"));
  }
  bool IsStep(StepId step) const { return step.value >= 0 && step.index() < plan_.steps.size(); }

  absl::Status Apply(const AllocAction& alloc) {
    RETURN_IF_ERROR(CheckId(alloc.tensor));
    RETURN_IF_ERROR(CheckInArena(alloc.tensor));
    RETURN_IF_ERROR(places_.Alloc(alloc, NextRun()));
    ASSIGN_OR_RETURN(const bool has_value, given_.Alloc(alloc, places_.is_shared(alloc.tensor)));
    if (has_value) values_.Give(alloc.tensor);
    return absl::OkStatus();
  }

  absl::Status Apply(const FreeAction& free) {
    RETURN_IF_ERROR(CheckId(free.tensor));
    RETURN_IF_ERROR(CheckInArena(free.tensor));
    RETURN_IF_ERROR(places_.Free(free.tensor));
    values_.Lose(free.tensor);
    return absl::OkStatus();
  }

  absl::Status Apply(const ComputeAction& compute) {
    RETURN_IF_ERROR(CheckTurn(compute.step, compute.recompute));
    if (IsCollective(plan_.steps[compute.step.index()].phase))
      return site_.Fault(PlanFault::kCollective, "the step has no kernel");
    RETURN_IF_ERROR(CheckEngines(compute));
    RETURN_IF_ERROR(CheckPause(compute));
    given_.Compute();
    order_.Begin(Stream::kCompute);
    if (compute.workspace.has_value()) {
      RETURN_IF_ERROR(places_.Workspace(*compute.workspace));
      RETURN_IF_ERROR(order_.Write(*compute.workspace));
    }
    const PlanStep& step = plan_.steps[compute.step.index()];
    RETURN_IF_ERROR(compute.recompute ? Rerun(step) : Run(step));
    places_.CountActivations();
    return absl::OkStatus();
  }

  absl::Status Apply(const CollectiveAction& collective) {
    RETURN_IF_ERROR(CheckTurn(collective.step, /*recompute=*/false));
    const PlanStep& step = plan_.steps[collective.step.index()];
    if (!IsCollective(step.phase))
      return site_.Fault(PlanFault::kCollective, "the step is not one of all ranks");
    given_.Compute();
    order_.Begin(Stream::kCollective);
    RETURN_IF_ERROR(Accumulate(step));
    values_.Run(step);
    sums_.Take(step);
    return shards_.Take(step);
  }

  absl::Status Apply(const OffloadAction& offload) {
    RETURN_IF_ERROR(CheckId(offload.tensor));
    RETURN_IF_ERROR(CheckInArena(offload.tensor));
    RETURN_IF_ERROR(places_.CheckHeld(offload.tensor));
    RETURN_IF_ERROR(values_.Offload(offload.tensor));
    order_.Begin(Stream::kD2h);
    RETURN_IF_ERROR(order_.Read(places_.region(offload.tensor)));
    RETURN_IF_ERROR(pools_.Offload(offload));
    const Pools::Copy& copy = pools_.CopyOf(offload.tensor);
    return order_.WriteCopy(copy.pool, copy.region);
  }

  absl::Status Apply(const PrefetchAction& prefetch) {
    RETURN_IF_ERROR(CheckId(prefetch.tensor));
    RETURN_IF_ERROR(CheckInArena(prefetch.tensor));
    RETURN_IF_ERROR(places_.CheckHeld(prefetch.tensor));
    RETURN_IF_ERROR(values_.Prefetch(prefetch.tensor));
    order_.Begin(Stream::kH2d);
    const Pools::Copy& copy = pools_.CopyOf(prefetch.tensor);
    RETURN_IF_ERROR(order_.ReadCopy(copy.pool, copy.region));
    RETURN_IF_ERROR(order_.Write(places_.region(prefetch.tensor)));
    given_.Prefetch(places_.region(prefetch.tensor));
    pools_.Prefetch(prefetch.tensor);
    return absl::OkStatus();
  }

  absl::Status Apply(const WaitAction& wait) { return order_.Wait(wait); }

  absl::Status CheckTurn(StepId step, bool recompute) {
    if (!IsStep(step)) return site_.Fault(PlanFault::kId, "there is no such step");
    if (recompute) return CheckRecompute(step);
    if (step == next_step_) {
      ++next_step_.value;
      return absl::OkStatus();
    }
    if (step < next_step_) {
      return site_.Fault(PlanFault::kStepOrder, "the step has run already");
    }
    return site_.Fault(PlanFault::kStepOrder,
                       absl::StrCat("the next step is ", site_.Describe(next_step_)));
  }

  absl::Status CheckRecompute(StepId step) const {
    if (plan_.steps[step.index()].phase != Phase::kForward) {
      return site_.Fault(PlanFault::kRecompute, "only forward steps can be run again");
    }
    if (step < next_step_) return sums_.CheckRerun(plan_.steps[step.index()]);
    return site_.Fault(PlanFault::kRecompute, "the step has not run yet");
  }

  absl::Status CheckEngines(const ComputeAction& compute) {
    if (!compute.recompute) {
      first_engines_[compute.step.index()] = &compute.engines;
    } else if (plan_.steps[compute.step.index()].rerun_reads.empty() &&
               compute.engines != *first_engines_[compute.step.index()]) {
      return site_.Fault(
          PlanFault::kEngines,
          "it is recomputed with different engines than the first run, so the bits may differ");
    }
    if (compute.engines.empty()) return absl::OkStatus();
    const int64_t batch = ImagesOf(plan_, plan_.steps[compute.step.index()]);
    int64_t left = batch;
    for (const EngineUse& use : compute.engines) {
      if (use.batch < 1 || use.batch > left) {
        return site_.Fault(PlanFault::kEngines,
                           absl::StrFormat("a micro-batch of %d, but only %d of the batch are left",
                                           use.batch, left));
      }
      if (use.adds &&
          (left == batch || plan_.steps[compute.step.index()].phase != Phase::kBackwardParams)) {
        return site_.Fault(PlanFault::kEngines,
                           "a micro-batch adds to gradients that nothing has written yet");
      }
      left -= use.batch;
    }
    if (left == 0) return absl::OkStatus();
    return site_.Fault(
        PlanFault::kEngines,
        absl::StrFormat("its micro-batches leave out %d of the batch of %d", left, batch));
  }

  // The iteration may be given up at its pause, and the next one begin: all that it would find at
  // the end is in its place.
  absl::Status CheckPause(const ComputeAction& compute) const {
    if (plan_.steps[compute.step.index()].phase != Phase::kPause) return absl::OkStatus();
    if (!compute.engines.empty() || compute.workspace.has_value())
      return site_.Fault(PlanFault::kPause, "the step has no kernel");
    for (const PlanTensor& tensor : plan_.tensors) {
      if (IsPersistent(tensor.role))
        RETURN_IF_ERROR(CheckKept(tensor.id, PlanFault::kPause, "is, at the pause,"));
    }
    return absl::OkStatus();
  }

  absl::Status Run(const PlanStep& step) {
    RETURN_IF_ERROR(shards_.Run(step));
    for (TensorId tensor : step.reads) {
      RETURN_IF_ERROR(CheckHeld(tensor));
      RETURN_IF_ERROR(values_.CheckCurrent(tensor));
      RETURN_IF_ERROR(sums_.CheckRead(tensor));
      RETURN_IF_ERROR(Read(tensor));
    }
    RETURN_IF_ERROR(Accumulate(step));
    TakeOver();
    for (TensorId tensor : step.writes) RETURN_IF_ERROR(Write(tensor));
    values_.Run(step);
    return absl::OkStatus();
  }

  absl::Status Accumulate(const PlanStep& step) {
    for (TensorId tensor : step.accumulates) {
      RETURN_IF_ERROR(CheckHeld(tensor));
      RETURN_IF_ERROR(values_.CheckCurrent(tensor));
      RETURN_IF_ERROR(Write(tensor));
    }
    return absl::OkStatus();
  }

  absl::Status Rerun(const PlanStep& step) {
    RETURN_IF_ERROR(shards_.Rerun(step));
    const std::vector<TensorId>& reads = RerunReads(step);
    for (size_t i = 0; i < reads.size(); ++i) {
      RETURN_IF_ERROR(CheckHeld(reads[i]));
      RETURN_IF_ERROR(values_.CheckRerunRead(step, i));
      RETURN_IF_ERROR(Read(reads[i]));
    }
    TakeOver();
    for (TensorId tensor : step.writes) {
      if (RerunWrites(step, tensor)) RETURN_IF_ERROR(Write(tensor));
    }
    values_.Rerun(step);
    return absl::OkStatus();
  }

  void TakeOver() {
    for (TensorId lost : places_.TakeOver()) values_.Lose(lost);
  }
  absl::Status CheckHeld(TensorId tensor) const {
    return IsExternal(tensor) ? absl::OkStatus() : places_.CheckHeld(tensor);
  }
  // It is held.
  absl::Status Read(TensorId tensor) {
    return IsExternal(tensor) ? order_.ReadExternal(tensor) : order_.Read(places_.region(tensor));
  }
  absl::Status Write(TensorId tensor) {
    RETURN_IF_ERROR(CheckHeld(tensor));
    return IsExternal(tensor) ? order_.WriteExternal(tensor) : order_.Write(places_.region(tensor));
  }

  // The run of the next compute action.
  std::optional<PlannedRun> NextRun() {
    next_compute_ = std::max(next_compute_, *site_.action());
    while (next_compute_ < plan_.actions.size()) {
      const auto* compute = std::get_if<ComputeAction>(&plan_.actions[next_compute_]);
      if (compute == nullptr) {
        ++next_compute_;
        continue;
      }
      if (!IsStep(compute->step)) return std::nullopt;
      const PlanStep& step = plan_.steps[compute->step.index()];
      return PlannedRun{&step, compute->recompute ? &RerunReads(step) : &step.reads};
    }
    return std::nullopt;
  }

  absl::Status CheckEnd() const {
    if (next_step_.index() < plan_.steps.size()) {
      return site_.Fault(PlanFault::kMissingStep,
                         absl::StrCat(site_.Describe(next_step_), " is never run"));
    }
    for (const PlanTensor& tensor : plan_.tensors) {
      if (IsPersistent(tensor.role)) {
        if (tensor.on_host() && places_.is_allocated(tensor.id)) {
          return site_.Fault(
              PlanFault::kEndState,
              absl::StrCat(site_.Describe(tensor.id), " ends in the arena, but began on the host"));
        }
        RETURN_IF_ERROR(CheckKept(tensor.id, PlanFault::kEndState, "ends"));
      } else if (places_.is_allocated(tensor.id)) {
        return site_.Fault(PlanFault::kLeak,
                           absl::StrCat(site_.Describe(tensor.id), " is never freed"));
      }
    }
    return absl::OkStatus();
  }

  // Whether the next iteration finds the tensor's current value where this one has found it.
  // `kind` and `verb` are for messages.
  absl::Status CheckKept(TensorId tensor, PlanFault kind, std::string_view verb) const {
    const auto fault = [&](std::string_view what) {
      return site_.Fault(kind, absl::StrFormat("%s %s %s", site_.Describe(tensor), verb, what));
    };
    if (plan_.tensors[tensor.index()].on_host()) {
      if (!values_.CheckCopy(tensor).ok()) return fault("without its current value on the host");
      return absl::OkStatus();
    }
    if (IsExternal(tensor)) return values_.CheckCurrent(tensor);
    if (!places_.is_allocated(tensor)) return fault("outside the arena");
    if (places_.region(tensor) != *given_.first_place(tensor)) {
      return fault(absl::StrCat("with ", Site::Describe(places_.region(tensor)),
                                ", but began with ", Site::Describe(*given_.first_place(tensor))));
    }
    if (!places_.CheckHeld(tensor).ok() || !values_.CheckCurrent(tensor).ok()) {
      return fault("without its current value");
    }
    return absl::OkStatus();
  }

  absl::Status CheckTotals() const {
    struct Total {
      const char* name;
      int64_t stated, found;
    };
    for (const Total& total :
         {Total{"peak_bytes", plan_.peak_bytes, places_.peak_bytes()},
          Total{"peak_activation_bytes", plan_.peak_activation_bytes,
                places_.peak_activation_bytes()},
          Total{"host_peak_bytes", plan_.host_peak_bytes, pools_.peak_bytes(Pool::kHost)},
          Total{"peer_peak_bytes", plan_.peer_peak_bytes, pools_.peak_bytes(Pool::kPeer)}}) {
      if (total.stated == total.found) continue;
      return site_.Fault(PlanFault::kTotals,
                         absl::StrFormat("%s is %d, but its actions reach %d", total.name,
                                         total.stated, total.found));
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  Site& site_;
  std::vector<const std::vector<EngineUse>*> first_engines_;  // by StepId, of steps that have run
  Places places_;
  Values values_;
  Order order_;
  Given given_;
  Pools pools_;
  Sums sums_;
  Shards shards_;
  StepId next_step_;         // the first step that has not run
  size_t next_compute_ = 0;  // the action up to which NextRun() has searched
};

}  // namespace
}  // namespace verifier

absl::Status Verify(const Plan& plan) {
  verifier::Site site(plan);
  RETURN_IF_ERROR(verifier::CheckTables(plan, site));
  return verifier::Checker(plan, site).Check();
}

}  // namespace neap
