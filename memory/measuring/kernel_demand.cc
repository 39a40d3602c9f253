#include "neap/memory/measuring/kernel_demand.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/conv/engine_losses.h"
#include "neap/layers/conv/estimated_parts.h"
#include "neap/layers/conv/measured_parts.h"
#include "neap/layers/conv/micro_batching.h"

namespace neap {
namespace {

constexpr double kUnsureOfModel = 0.3;
constexpr double kUnsureBetween = 0.1;
constexpr double kOfAlternatives = 0.2;  // of what the same doubt is worth where the plan runs it
// An engine that is expected to take so many times as long as the fastest that fits is not
// demanded. What is expected is the median of other networks: of engines that use the matrix units
// it says less, because all of them could be as fast as these are.
constexpr double kTooSlow = 3, kTooSlowOfTensorCores = 10;
// The expected gains of the library's next engines, as parts of the fastest time, by place: of the
// first of each family, and of others, which differ only in knobs.
constexpr double kNextFamilies[] = {0.06, 0.06, 0.05, 0.05, 0.04, 0.04, 0.03, 0.03};
constexpr double kNextOfFamily[] = {0.05, 0.03, 0.02, 0.01};
constexpr double kMakingSeconds = 5e-3;
constexpr double kLoadingSeconds = 100e-3;
constexpr double kMinSampleSeconds = 0.5e-3;
constexpr double kSamples = 6;  // with those of the warm-up

// The runs of one kernel in an iteration.
struct Runs {
  int64_t count = 0;
  double flops = 0;
  int64_t most_free_bytes = 0;   // for a workspace, of all runs
  std::vector<EngineUse> parts;  // of the first run; empty if there is only one engine
};

class Demands {
 public:
  Demands(const KernelOptions& kernels, const DeviceDescription& device, EngineCatalog& catalog,
          const MadeKernels& made)
      : kernels_(kernels), device_(device), catalog_(catalog), made_(made) {}

  absl::Status Add(const StepSignature& signature, const Runs& runs) {
    ASSIGN_OR_RETURN(const std::vector<Engine> engines,
                     WholeEngines(signature, kernels_.divisions, catalog_));
    const EstimateOptions options = {.timings = kernels_.timings.get(),
                                     .device = device_,
                                     .flops = runs.flops,
                                     .divisions = kernels_.divisions,
                                     .deterministic = kernels_.deterministic};
    ASSIGN_OR_RETURN(const std::vector<TimedEngine> known,
                     EstimatedPartsOf(signature, engines, options, catalog_));
    if (known.empty()) return absl::OkStatus();
    for (const EngineUse& part : Running(signature, runs, engines))
      RETURN_IF_ERROR(AddPart(signature, part, known, runs.count, /*in_plan=*/true));
    const bool is_divisible = IsDivisible(signature);
    const std::vector<Configuration> front = DesirableConfigurations(
        known, BatchOf(signature), is_divisible ? BatchGranularity(signature) : 1,
        runs.most_free_bytes);
    const double fastest = front.empty() ? 0 : front.back().seconds;
    for (const Configuration& configuration : front) {
      if (configuration.seconds > kTooSlow * fastest) continue;
      for (const EngineUse& part : configuration.parts) {
        RETURN_IF_ERROR(AddPart(signature, part, known, runs.count, /*in_plan=*/false));
      }
    }
    AddNextEngines(signature, engines, known, runs, fastest);
    return absl::OkStatus();
  }

  std::vector<KernelDemand> Take() {
    std::vector<KernelDemand> demands;
    for (auto& [key, demand] : demands_) demands.push_back(std::move(demand));
    std::sort(demands.begin(), demands.end(), [this](const KernelDemand& a, const KernelDemand& b) {
      const double left = a.worth_seconds * MeasuringSeconds(b, made_);
      const double right = b.worth_seconds * MeasuringSeconds(a, made_);
      if (left != right) return left > right;
      const std::string of_a = SignatureText(a.signature), of_b = SignatureText(b.signature);
      return std::pair(of_a, a.engine.id) < std::pair(of_b, b.engine.id);
    });
    return demands;
  }

 private:
  // A part of a configuration, which the known engines include.
  struct Key {
    StepSignature signature;
    std::string engine;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.signature, key.engine);
    }
  };

  // The engines that the plan runs; a step with only one engine has no name for it.
  static std::vector<EngineUse> Running(const StepSignature& signature, const Runs& runs,
                                        const std::vector<Engine>& engines) {
    if (!IsDivisible(signature)) {
      const std::string engine =
          runs.parts.empty() ? engines.front().id : runs.parts.front().engine;
      return {{engine, BatchOf(signature)}};
    }
    const bool is_only = runs.parts.empty() && !engines.empty();
    return is_only ? std::vector<EngineUse>{{engines.front().id, BatchOf(signature)}} : runs.parts;
  }

  absl::Status AddPart(const StepSignature& signature, const EngineUse& part,
                       const std::vector<TimedEngine>& known, int64_t count, bool in_plan) {
    if (part.adds) return absl::OkStatus();  // known only if it was measured
    const auto timed = std::find_if(known.begin(), known.end(), [&](const TimedEngine& engine) {
      return engine.use() == part;
    });
    if (timed == known.end() || timed->source == TimeSource::kMeasured) return absl::OkStatus();
    StepSignature of_part = PartOf(signature, part.batch);
    ASSIGN_OR_RETURN(const std::vector<Engine> engines, catalog_.Engines(of_part));
    const auto listed = std::find_if(engines.begin(), engines.end(), [&](const Engine& engine) {
      return engine.id == part.engine;
    });
    if (listed == engines.end()) return absl::OkStatus();  // its time is of another version
    const double doubt =
        timed->source == TimeSource::kInterpolated ? kUnsureBetween : kUnsureOfModel;
    const double share = in_plan ? doubt : kOfAlternatives * doubt;
    Demand(std::move(of_part), *listed,
           {.seconds = timed->seconds, .count = count, .in_plan = in_plan},
           share * static_cast<double>(count) * timed->seconds);
    return absl::OkStatus();
  }

  static StepSignature PartOf(const StepSignature& signature, int64_t batch) {
    return batch == BatchOf(signature) ? signature : WithBatch(signature, batch);
  }

  // The time that is expected of a kernel.
  struct Expected {
    double seconds = 0;  // of a run
    int64_t count = 0;
    bool in_plan = false;
  };

  void Demand(StepSignature signature, Engine engine, const Expected& expected, double worth) {
    const Key key = {signature, engine.id};
    KernelDemand none = {.signature = std::move(signature), .engine = std::move(engine)};
    KernelDemand& demand = demands_.try_emplace(key, std::move(none)).first->second;
    demand.worth_seconds += worth;
    demand.run_seconds = expected.seconds;
    demand.runs =
        expected.in_plan ? demand.runs + expected.count : std::max(demand.runs, expected.count);
    demand.is_in_plan = demand.is_in_plan || expected.in_plan;
  }

  // Engines for the whole batch that are not known to be slower than the best.
  void AddNextEngines(const StepSignature& signature, const std::vector<Engine>& engines,
                      const std::vector<TimedEngine>& known, const Runs& runs, double fastest) {
    absl::flat_hash_set<std::string_view> families;
    size_t of_families = 0, of_others = 0;
    const std::vector<Engine> usable =
        UsableEngines(signature, engines, /*deterministic=*/true, kernels_.timings.get());
    for (const Engine& engine : usable) {
      if (engine.workspace_bytes > runs.most_free_bytes) continue;
      const auto timed = std::find_if(known.begin(), known.end(), [&](const TimedEngine& other) {
        return other.engine == engine.id && other.batch == BatchOf(signature) && !other.adds;
      });
      if (timed == known.end()) continue;
      const double too_slow = engine.uses_tensor_cores ? kTooSlowOfTensorCores : kTooSlow;
      if (timed->seconds > too_slow * fastest) continue;
      const bool is_new = families.insert(FamilyOf(engine.id)).second;
      if (timed->source == TimeSource::kMeasured) continue;
      size_t& place = is_new ? of_families : of_others;
      const absl::Span<const double> gains =
          is_new ? absl::MakeConstSpan(kNextFamilies) : absl::MakeConstSpan(kNextOfFamily);
      if (place == gains.size()) continue;
      const double gain = gains[place++];
      Demand(signature, engine, {.seconds = timed->seconds, .count = runs.count},
             gain * static_cast<double>(runs.count) * fastest);
    }
  }

  const KernelOptions& kernels_;
  const DeviceDescription& device_;
  EngineCatalog& catalog_;
  const MadeKernels& made_;
  absl::flat_hash_map<Key, KernelDemand> demands_;
};

// The kernels that a plan's iteration runs.
absl::flat_hash_map<StepSignature, Runs> RunsOf(const Program& program, const Plan& plan) {
  absl::flat_hash_map<StepSignature, Runs> all;
  const std::vector<StepMemory> memory = MemoryPerStep(plan);
  size_t position = 0;
  for (const Action& action : plan.actions) {
    const auto* const compute = std::get_if<ComputeAction>(&action);
    if (compute == nullptr) continue;
    const StepMemory& at = memory[position++];
    const Step& step = program.steps[compute->step.index()];
    if (!HasKernel(step.phase)) continue;
    const bool is_other_kernel = compute->recompute && step.has_rerun_kernel();
    Runs& runs = all[program.Signature(step, is_other_kernel)];
    if (runs.count++ == 0) runs.parts = compute->engines;
    runs.flops = step.flops;
    runs.most_free_bytes = std::max(runs.most_free_bytes, at.free_bytes + at.workspace_bytes);
  }
  return all;
}

// The additions of gradients to sums.
absl::flat_hash_map<StepSignature, Runs> AdditionsOf(const Program& program) {
  absl::flat_hash_map<StepSignature, Runs> all;
  for (const Step& step : program.steps) {
    for (const TensorSpec& sum : program.Additions(step)) ++all[AdditionSignature(sum)].count;
  }
  return all;
}

}  // namespace

void MadeKernels::Add(const std::string& engine, double making_seconds) {
  engines_.insert(engine);
  const auto [family, is_new] =
      by_family_.try_emplace(std::string(FamilyOf(engine)), making_seconds);
  if (!is_new) family->second = std::min(family->second, making_seconds);
}

double MadeKernels::LeastSeconds(const std::string& engine) const {
  const auto family = by_family_.find(std::string(FamilyOf(engine)));
  return family == by_family_.end() ? 0 : family->second;
}

double MeasuringSeconds(const KernelDemand& demand, const MadeKernels& made) {
  const bool loads = !demand.is_in_plan && !made.IsLoaded(demand.engine.id);
  return std::max(kMakingSeconds, made.LeastSeconds(demand.engine.id)) +
         (loads ? kLoadingSeconds : 0) + kSamples * std::max(kMinSampleSeconds, demand.run_seconds);
}

absl::StatusOr<std::vector<KernelDemand>> DemandsOf(const Program& program, const Plan& plan,
                                                    const KernelOptions& kernels,
                                                    const DeviceDescription& device,
                                                    EngineCatalog& catalog,
                                                    const MadeKernels& made) {
  if (program.options.accounting == Accounting::kPaper) return std::vector<KernelDemand>{};
  Demands demands(kernels, device, catalog, made);
  for (const auto& [signature, runs] : RunsOf(program, plan))
    RETURN_IF_ERROR(demands.Add(signature, runs));
  for (const auto& [signature, runs] : AdditionsOf(program))
    RETURN_IF_ERROR(demands.Add(signature, runs));
  return demands.Take();
}

}  // namespace neap
