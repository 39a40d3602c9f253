// Plans changed at random: every plan that the verifier still accepts must run correctly in every
// order of the streams.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "neap/core/verifier/verifier.h"
#include "tests/core/verifier/plan_interpreter.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

constexpr uint64_t kSeed = 20261121;
constexpr int kMutants = 6000;
constexpr uint64_t kOrders = 8;

class Mutator {
 public:
  Mutator(const Plan& plan, std::mt19937_64& random) : plan_(plan), random_(random) {
    for (size_t i = 0; i < plan.actions.size(); ++i) actions_.push_back({i, plan.actions[i]});
  }

  Plan Mutate() {
    for (uint64_t left = 1 + Below(3); left > 0; --left) ChangeOne();
    plan_.actions.clear();
    for (const Numbered& numbered : actions_) plan_.actions.push_back(numbered.action);
    for (Action& action : plan_.actions) Renumber(action);
    return plan_;
  }

 private:
  struct Numbered {
    size_t original;
    Action action;
  };

  uint64_t Below(uint64_t limit) { return random_() % limit; }
  std::vector<Numbered>::iterator Any() {
    return actions_.begin() + static_cast<std::ptrdiff_t>(Below(actions_.size()));
  }

  void ChangeOne() {
    const auto at = Any();
    switch (Below(7)) {
      case 0:
        return std::swap(*at, *Any());
      case 1:
        return std::swap(*at, at == actions_.begin() ? *at : *(at - 1));
      case 2:
        if (actions_.size() > 1) actions_.erase(at);
        return;
      case 3: {
        const Numbered copy = *at;
        actions_.insert(Any(), copy);
        return;
      }
      case 4: {
        const Numbered moved = *at;
        actions_.erase(at);
        actions_.insert(actions_.begin() + static_cast<std::ptrdiff_t>(Below(actions_.size() + 1)),
                        moved);
        return;
      }
      case 5:
        return Below(8) == 0 ? ChangePools() : ChangeFields(at->action);
      default:
        return ChangeFields(at->action);
    }
  }

  int64_t Shift() { return (static_cast<int64_t>(Below(5)) - 2) * kBlockBytes; }

  // Changes the bytes of the incoming batch, the size of a pool or of its residents, or the place
  // of a resident, perhaps a new one.
  void ChangePools() {
    if (plan_.incoming_batch.has_value() && Below(2) == 0) {
      Region& incoming = *plan_.incoming_batch;
      (Below(2) == 0 ? incoming.bytes : incoming.offset) += Shift();
      return;
    }
    PlanTensor& tensor = plan_.tensors[Below(plan_.tensors.size())];
    switch (Below(4)) {
      case 0:
        plan_.host_pool_bytes += Shift();
        return;
      case 1:
        plan_.peer_pool_bytes += Shift();
        return;
      case 2:
        plan_.host_resident_bytes += Shift();
        return;
      default:
        tensor.host_offset = tensor.host_offset.value_or(0) + Shift();
    }
  }

  void ChangeOffload(OffloadAction& offload) {
    switch (Below(4)) {
      case 0:
        offload.tensor = TensorId(Below(plan_.tensors.size()));
        return;
      case 1:
        offload.pool = offload.pool == Pool::kHost ? Pool::kPeer : Pool::kHost;
        return;
      default:
        offload.offset += Shift();
    }
  }

  // Changes a part, adds one, or removes one, also where a step has none.
  void ChangeEngines(std::vector<EngineUse>& engines) {
    if (engines.empty()) {
      engines = {{"a", plan_.batch}};
      if (Below(2) == 0) engines.push_back({"a", static_cast<int64_t>(Below(2)), Below(2) == 0});
      return;
    }
    EngineUse& part = engines[Below(engines.size())];
    switch (Below(5)) {
      case 0:
        part.adds = !part.adds;
        return;
      case 1:
        part.batch += Below(2) == 0 ? 1 : -1;
        return;
      case 2: {  // of the same total
        EngineUse& other = engines[Below(engines.size())];
        --part.batch;
        ++other.batch;
        return;
      }
      case 3:
        engines.push_back(part);
        return;
      default:
        engines.erase(engines.begin() + (&part - engines.data()));
    }
  }

  // Changes which results share bytes with operands, what a recomputation reads, or how often a
  // tensor is named. These are facts about the step's kernel, so the actions have to agree with
  // them.
  void ChangeStep(PlanStep& step) {
    const auto pick = [this](const std::vector<TensorId>& ids) {
      return ids.empty() || Below(8) == 0 ? TensorId(Below(plan_.tensors.size()))
                                          : ids[Below(ids.size())];
    };
    switch (Below(6)) {
      case 0:
        step.in_place.emplace_back(pick(step.writes), pick(step.reads));
        return;
      case 3:
        step.reads.push_back(pick(step.reads));
        return;
      case 4:
        (Below(2) == 0 ? step.writes : step.accumulates).push_back(pick(step.accumulates));
        return;
      case 1:
        step.in_place.clear();
        return;
      case 2:
        step.rerun_reads.push_back(pick(step.reads));
        return;
      default:
        if (!step.rerun_reads.empty())
          step.rerun_reads.erase(step.rerun_reads.begin() +
                                 static_cast<std::ptrdiff_t>(Below(step.rerun_reads.size())));
    }
  }

  void ChangeCompute(ComputeAction& compute) {
    switch (Below(6)) {
      case 0:
        return ChangeEngines(compute.engines);
      case 1:
        return ChangeStep(plan_.steps[compute.step.index()]);
      case 2:
      case 3:
        compute.recompute = !compute.recompute;
        return;
      default:
        if (compute.workspace.has_value()) compute.workspace->offset += Shift();
    }
  }

  // Changes an offset, a region's size, a tensor, the action of a wait, or how a step is run.
  void ChangeFields(Action& action) {
    const int64_t shift = Shift();
    if (auto* alloc = std::get_if<AllocAction>(&action)) {
      if (Below(8) == 0) alloc->tensor = TensorId(Below(plan_.tensors.size()));
      (Below(4) == 0 ? alloc->region.bytes : alloc->region.offset) += shift;
    } else if (auto* offload = std::get_if<OffloadAction>(&action)) {
      ChangeOffload(*offload);
    } else if (auto* compute = std::get_if<ComputeAction>(&action)) {
      ChangeCompute(*compute);
    } else if (auto* collective = std::get_if<CollectiveAction>(&action)) {
      if (Below(4) == 0) ChangeStep(plan_.steps[collective->step.index()]);
    } else if (auto* wait = std::get_if<WaitAction>(&action)) {
      wait->on = static_cast<int64_t>(Any()->original);
    } else {
      const TensorId tensor(Below(plan_.tensors.size()));
      if (auto* free = std::get_if<FreeAction>(&action)) free->tensor = tensor;
      if (auto* prefetch = std::get_if<PrefetchAction>(&action)) prefetch->tensor = tensor;
    }
  }

  // Waits refer to actions, not to positions.
  void Renumber(Action& action) const {
    auto* wait = std::get_if<WaitAction>(&action);
    if (wait == nullptr) return;
    for (size_t i = 0; i < actions_.size(); ++i) {
      if (actions_[i].original != static_cast<size_t>(wait->on)) continue;
      wait->on = static_cast<int64_t>(i);
      return;
    }
    wait->on = -1;
  }

  Plan plan_;
  std::mt19937_64& random_;
  std::vector<Numbered> actions_;
};

struct Verdicts {
  int accepted = 0, refused = 0, wrong = 0;  // `wrong` ones are also counted as refused
};

Verdicts JudgeMutants(const char* script) {
  std::mt19937_64 random(kSeed);
  const Plan plan = PlanFromScript(script);
  Verdicts verdicts;
  for (int i = 0; i < kMutants; ++i) {
    Plan mutant = Mutator(plan, random).Mutate();
    RecomputeTotals(mutant);
    const bool accepted = Verify(mutant).ok();
    bool wrong = false;
    for (uint64_t order = 0; order < kOrders && !wrong; ++order) {
      const std::optional<std::string> fault = Interpret(mutant, order);
      wrong = fault.has_value();
      if (accepted && wrong)
        FAIL_CHECK("accepted, but it ", *fault, ": mutant ", i, " ", mutant.ToJson());
    }
    ++(accepted ? verdicts.accepted : verdicts.refused);
    verdicts.wrong += wrong ? 1 : 0;
  }
  return verdicts;
}

TEST_CASE("every changed plan that is accepted runs correctly in any order of the streams") {
  for (const char* script : {kPlainPlan, kIncomingPlan, kInPlacePlan, kTransferPlan, kRecomputePlan,
                             kPersistentTransferPlan, kPoolsPlan, kResidentPlan, kSumPlan,
                             kForwardSumPlan, kShardPlan, kPausePlan, kResidentPausePlan}) {
    const Plan plan = PlanFromScript(script);
    Plan totals = plan;
    RecomputeTotals(totals);
    CHECK(totals == plan);
    for (uint64_t order = 0; order < kOrders; ++order)
      CHECK(Interpret(plan, order).value_or("") == "");
    const Verdicts verdicts = JudgeMutants(script);
    MESSAGE("seed ", kSeed, ": ", verdicts.accepted, " changed plans accepted, ", verdicts.refused,
            " refused, of which ", verdicts.wrong, " go wrong");
    CHECK(verdicts.accepted > kMutants / 100);
    CHECK(verdicts.wrong > kMutants / 4);
  }
}

}  // namespace
}  // namespace neap
