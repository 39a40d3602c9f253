#include "neap/memory/engines/engine_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/parallel.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/planner.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/conv/estimated_parts.h"
#include "neap/layers/conv/measured_parts.h"
#include "neap/recompute/layerwise_bound.h"

namespace neap {
namespace {

const Configuration& SmallestOf(const std::vector<Configuration>& configurations) {
  return *std::min_element(configurations.begin(), configurations.end(),
                           [](const Configuration& a, const Configuration& b) {
                             return a.workspace_bytes < b.workspace_bytes;
                           });
}

// The least time of the configurations. In strict mode the first one, which is preferred, may take
// longer.
double FastestOf(const StepConfigurations& list) {
  const std::vector<Configuration>& configurations = list.configurations;
  return std::min_element(
             configurations.begin(), configurations.end(),
             [](const Configuration& a, const Configuration& b) { return a.seconds < b.seconds; })
      ->seconds;
}

constexpr char kNoEngine[] = "the library has no deterministic engine";

// Leaves only the configuration that is used under every budget.
void KeepOne(int64_t limit_bytes, std::vector<Configuration>& configurations) {
  const auto fixed =
      std::find_if(configurations.begin(), configurations.end(),
                   [&](const Configuration& c) { return c.workspace_bytes <= limit_bytes; });
  Configuration keep = fixed == configurations.end() ? SmallestOf(configurations) : *fixed;
  configurations = {std::move(keep)};
}

// Leaves the configurations within the limit, and the smallest ones even if they exceed it.
void KeepWithin(int64_t limit_bytes, std::vector<Configuration>& configurations) {
  const int64_t least = SmallestOf(configurations).workspace_bytes;
  std::erase_if(configurations, [&](const Configuration& configuration) {
    return configuration.workspace_bytes > std::max(limit_bytes, least);
  });
}

// Neap's own kernel, or the placeholder for devices without a catalog.
bool IsNameless(const Engine& engine) {
  return engine.id.empty() || engine.id == kOwnEngine || engine.id == kDefaultEngine;
}

// The most workspace for an engine in strict mode, which follows from what engines say of
// themselves: what was measured, and on which device, changes no choice.
int64_t StrictLimitOf(const std::vector<Engine>& engines) {
  const auto least_slowdown = [&](int64_t limit_bytes) {
    double least = std::numeric_limits<double>::infinity();
    for (const Engine& engine : engines) {
      if (engine.deterministic && engine.workspace_bytes <= limit_bytes)
        least = std::min(least, std::max(engine.slowdown, 1.0));
    }
    return least;
  };
  const double usual = least_slowdown(kStrictWorkspaceBytes);
  const bool is_much_slower =
      std::isfinite(usual) && usual >= kStrictMuchSlower * least_slowdown(kStrictMostBytes);
  return is_much_slower ? kStrictMostBytes : kStrictWorkspaceBytes;
}

// A catalog may be the user's own. Sums of sizes within the limit do not overflow.
absl::Status CheckWorkspaces(const std::vector<Engine>& engines) {
  for (const Engine& engine : engines) {
    if (engine.workspace_bytes >= 0 && engine.workspace_bytes <= kMaxTensorBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("engine '", engine.id, "' wants ", engine.workspace_bytes,
                     " bytes of workspace, which is not between 0 and 16 TiB"));
  }
  return absl::OkStatus();
}

// The additions of a step's gradients to sums.
struct Sums {
  double seconds = 0;
  TimeSource source = TimeSource::kMeasured;  // of the one that is known least
};

// All configurations of a step, or one that is the same for every budget.
enum class Choice : uint8_t { kAll, kOneForAll };

// Lists the configurations of steps. Asks the catalog once for each signature.
class Lister {
 public:
  Lister(const Program& program, const KernelOptions& options, bool strict, Choice choice,
         int64_t largest_step_bytes, const DeviceDescription& device, EngineCatalog& catalog)
      : program_(program),
        options_(options),
        strict_(strict),
        choice_(choice),
        largest_step_bytes_(largest_step_bytes),
        device_(device),
        catalog_(catalog) {}

  absl::StatusOr<StepConfigurations> List(const Run& run) {
    const Step& step = program_.steps[run.step.index()];
    if (!HasKernel(step.phase)) return StepConfigurations{{Configuration{}}, /*only_one=*/true};
    const StepSignature signature = program_.Signature(step, run.recompute);
    if (program_.options.accounting == Accounting::kPaper) {
      const double seconds = PredictSeconds(signature, step.flops, device_);
      return StepConfigurations{{{.seconds = seconds}}, /*only_one=*/true};
    }
    absl::StatusOr<StepConfigurations> list = OfSignature(signature, step.flops);
    if (!list.ok()) {
      return absl::Status(list.status().code(),
                          absl::StrCat(program_.StepName(step), ": ", list.status().message()));
    }
    if (!run.recompute) AddSums(step, *list);
    if (!MayDivide(program_.layers[step.layer.index()].traits, step.phase)) SetImages(step, *list);
    return list;
  }

 private:
  // In a plan a step that is not run in parts has all images of a sub-batch, even an update.
  void SetImages(const Step& step, StepConfigurations& list) const {
    for (Configuration& configuration : list.configurations)
      configuration.parts.front().batch = program_.layers[step.layer.index()].sub_batch.images;
  }

  absl::StatusOr<StepConfigurations> OfSignature(const StepSignature& signature, double flops) {
    if (const auto known = known_.find(signature); known != known_.end()) return known->second;
    const DivisionPolicy divisions = strict_ ? DivisionPolicy::kUndivided : options_.divisions;
    ASSIGN_OR_RETURN(const std::vector<Engine> engines,
                     WholeEngines(signature, divisions, catalog_));
    RETURN_IF_ERROR(CheckWorkspaces(engines));
    StepConfigurations list;
    ASSIGN_OR_RETURN(list.configurations, strict_ ? InLibraryOrder(signature, flops, engines)
                                                  : Fastest(signature, flops, engines));
    if (choice_ == Choice::kOneForAll) KeepOne(LimitOf(signature, engines), list.configurations);
    list.only_one = engines.size() == 1 && IsNameless(engines.front()) &&
                    list.configurations.size() == 1 &&
                    list.configurations.front().parts.size() == 1;
    return known_.emplace(signature, std::move(list)).first->second;
  }

  // The most workspace for an engine that the step has under every budget: with its operands, no
  // more bytes than the network's largest step. In strict mode it must not depend on the program,
  // which fusion changes.
  int64_t LimitOf(const StepSignature& signature, const std::vector<Engine>& engines) const {
    if (strict_) return StrictLimitOf(engines);
    if (signature.phase != Phase::kForward) return kStrictWorkspaceBytes;
    int64_t bytes = 0;
    for (const OperandSpec& operand : signature.operands) bytes += operand.tensor.size_bytes();
    return std::max(kStrictWorkspaceBytes, largest_step_bytes_ - bytes);
  }

  EstimateOptions EstimatesOf(double flops) const {
    return {.timings = options_.timings.get(),
            .device = device_,
            .flops = flops,
            .divisions = options_.divisions,
            .deterministic = options_.deterministic || choice_ == Choice::kOneForAll};
  }

  // Engines that failed when they were to be measured are only among them if all did.
  absl::StatusOr<std::vector<TimedEngine>> Estimates(const StepSignature& signature,
                                                     const std::vector<Engine>& engines,
                                                     EstimateOptions options) {
    ASSIGN_OR_RETURN(std::vector<TimedEngine> known,
                     EstimatedPartsOf(signature, engines, options, catalog_));
    if (!known.empty()) return known;
    options.timings = nullptr;
    ASSIGN_OR_RETURN(known, EstimatedPartsOf(signature, engines, options, catalog_));
    if (!known.empty()) return known;
    return absl::FailedPreconditionError(kNoEngine);
  }

  // The fastest first.
  absl::StatusOr<std::vector<Configuration>> Fastest(const StepSignature& signature, double flops,
                                                     const std::vector<Engine>& engines) {
    ASSIGN_OR_RETURN(std::vector<TimedEngine> known,
                     Estimates(signature, engines, EstimatesOf(flops)));
    const bool is_divisible = IsDivisible(signature);
    const int64_t granularity = is_divisible ? BatchGranularity(signature) : 1;
    const int64_t batch = BatchOf(signature);
    const auto front_of = [&](const std::vector<TimedEngine>& parts) {
      return DesirableConfigurations(parts, batch, granularity, kUnlimited);
    };
    ASSIGN_OR_RETURN(std::vector<Configuration> front,
                     ChooseListed(signature, front_of, catalog_, known));
    if (front.empty()) return absl::FailedPreconditionError(kNoEngine);
    std::reverse(front.begin(), front.end());
    if (is_divisible) KeepWithin(options_.workspace_limit_bytes, front);
    return front;
  }

  // Configurations for the whole batch in the library's order, which is the same whatever was
  // measured: one for each deterministic engine.
  absl::StatusOr<std::vector<Configuration>> InLibraryOrder(const StepSignature& signature,
                                                            double flops,
                                                            const std::vector<Engine>& engines) {
    EstimateOptions options = EstimatesOf(flops);
    options.divisions = DivisionPolicy::kUndivided;
    ASSIGN_OR_RETURN(const std::vector<TimedEngine> known, Estimates(signature, engines, options));
    std::vector<Configuration> configurations;
    for (const Engine& engine : engines) {
      if (!engine.deterministic) continue;
      Configuration configuration = {.parts = {{engine.id, BatchOf(signature)}},
                                     .workspace_bytes = engine.workspace_bytes,
                                     .seconds = known.front().seconds};
      for (const TimedEngine& timed : known) {
        if (timed.use() != configuration.parts.front()) continue;
        configuration.seconds = timed.seconds;
        configuration.source = timed.source;
      }
      configurations.push_back(std::move(configuration));
    }
    if (configurations.empty()) return absl::FailedPreconditionError(kNoEngine);
    return configurations;
  }

  // Adds what the executor does besides the kernel: additions of gradients to sums, and their
  // scratch space.
  void AddSums(const Step& step, StepConfigurations& list) const {
    const Sums sums = SumsOf(step);
    const int64_t scratch_bytes = program_.AccumulationScratchBytes(step);
    for (Configuration& configuration : list.configurations) {
      configuration.workspace_bytes += scratch_bytes;
      configuration.seconds += sums.seconds;
      configuration.source = std::min(configuration.source, sums.source);
    }
  }

  Sums SumsOf(const Step& step) const {
    Sums sums;
    for (const TensorSpec& sum : program_.Additions(step)) {
      std::optional<double> seconds;
      if (options_.timings != nullptr) seconds = AdditionSeconds(sum, *options_.timings);
      sums.seconds += seconds.value_or(PredictAdditionSeconds(sum, device_));
      if (!seconds.has_value()) sums.source = TimeSource::kModel;
    }
    return sums;
  }

  const Program& program_;
  const KernelOptions& options_;
  bool strict_;
  Choice choice_;
  int64_t largest_step_bytes_;
  const DeviceDescription& device_;
  EngineCatalog& catalog_;
  absl::flat_hash_map<StepSignature, StepConfigurations> known_;
};

}  // namespace

namespace {

// A library takes milliseconds to list the engines of a step for the first time, and keeps its
// answer. Networks with fewer different steps than this are listed on one thread.
constexpr size_t kMinStepsForThreads = 16;

// Lists the engines of all steps once, on several threads. Errors are found again by the Lister.
void ListInParallel(const Program& program, EngineCatalog& catalog) {
  absl::flat_hash_set<StepSignature> distinct;
  std::vector<StepSignature> signatures;
  for (const Step& step : program.steps) {
    if (!HasKernel(step.phase)) continue;
    StepSignature signature = program.Signature(step);
    if (IsDivisible(signature) && distinct.insert(signature).second)
      signatures.push_back(std::move(signature));
  }
  if (signatures.size() < kMinStepsForThreads) return;
  EachInParallel(signatures.size(), kMaxPlanningThreads,
                 [&] { return [&](size_t i) { (void)catalog.Engines(signatures[i]); }; });
}

}  // namespace

absl::StatusOr<EngineTable> EngineTable::List(const Program& program, const KernelOptions& options,
                                              bool strict, const DeviceDescription& device,
                                              EngineCatalog& catalog) {
  EngineTable table;
  table.options_ = options;
  table.strict_ = strict;
  table.device_ = device;
  table.again_.resize(program.steps.size());
  table.runs_again_.resize(program.steps.size(), false);
  if (program.options.accounting == Accounting::kExact) ListInParallel(program, catalog);
  const Choice choice = strict ? Choice::kOneForAll : Choice::kAll;
  table.largest_step_bytes_ = BoundLayerwise(program, /*in_place=*/true).l_peak;
  Lister lister(program, options, strict, choice, table.largest_step_bytes_, device, catalog);
  for (const Step& step : program.steps) {
    ASSIGN_OR_RETURN(StepConfigurations list, lister.List({step.id}));
    table.first_.push_back(std::make_shared<const StepConfigurations>(std::move(list)));
  }
  return table;
}

absl::Status EngineTable::AddReruns(const Program& program, const ComputeSequence& runs,
                                    EngineCatalog& catalog) {
  Lister lister(program, options_, strict_, Choice::kOneForAll, largest_step_bytes_, device_,
                catalog);
  for (const Run& run : runs) {
    if (!run.recompute) continue;
    RETURN_IF_ERROR(AddRerun(program.steps[run.step.index()],
                             [&](const Run& listed) { return lister.List(listed); }));
  }
  return absl::OkStatus();
}

absl::Status EngineTable::AddRerun(const Step& step, ListRun list) {
  if (again_[step.id.index()].first != nullptr) return absl::OkStatus();
  Again again;
  ASSIGN_OR_RETURN(StepConfigurations first, list({step.id}));
  again.first = again.rerun = std::make_shared<const StepConfigurations>(std::move(first));
  if (step.has_rerun_kernel()) {
    ASSIGN_OR_RETURN(StepConfigurations rerun, list({.step = step.id, .recompute = true}));
    again.rerun = std::make_shared<const StepConfigurations>(std::move(rerun));
  }
  again_[step.id.index()] = std::move(again);
  return absl::OkStatus();
}

EngineTable EngineTable::For(const ComputeSequence& runs) const {
  EngineTable table = *this;
  table.runs_again_.assign(first_.size(), false);
  for (const Run& run : runs) {
    if (run.recompute) table.runs_again_[run.step.index()] = true;
  }
  return table;
}

absl::StatusOr<RebuildPrices> EngineTable::PriceReruns(const Program& program,
                                                       EngineCatalog& catalog) {
  Lister lister(program, options_, strict_, Choice::kOneForAll, largest_step_bytes_, device_,
                catalog);
  const std::vector<double> none(program.steps.size(), 0);
  RebuildPrices prices = {.rerun_seconds = none, .first_run_seconds = none};
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kForward) continue;
    const absl::Status added =
        AddRerun(step, [&](const Run& listed) { return lister.List(listed); });
    if (!added.ok() && !absl::IsFailedPrecondition(added)) return added;
    if (!added.ok()) {
      prices.rerun_seconds[step.id.index()] = std::numeric_limits<double>::infinity();
      continue;
    }
    const Again& again = again_[step.id.index()];
    prices.rerun_seconds[step.id.index()] = FastestOf(*again.rerun);
    prices.first_run_seconds[step.id.index()] =
        std::max(FastestOf(*again.first) - FastestOf(*first_[step.id.index()]), 0.0);
  }
  prices.run_seconds = LeastRunSeconds();
  return prices;
}

std::vector<double> EngineTable::LeastRunSeconds() const {
  std::vector<double> seconds;
  for (size_t step = 0; step < first_.size(); ++step) {
    seconds.push_back(FastestOf(*first_[step]));
    const Shared& again = again_[step].first;
    if (again != nullptr) seconds.back() = std::min(seconds.back(), FastestOf(*again));
  }
  return seconds;
}

double EngineTable::LeastSeconds(const Run& run) const { return FastestOf(Of(run)); }

const Configuration& EngineTable::Smallest(const Run& run) const {
  return SmallestOf(Of(run).configurations);
}

const Configuration& EngineTable::FirstThatFits(const Run& run, int64_t free_bytes) const {
  for (const Configuration& configuration : Of(run).configurations) {
    if (configuration.workspace_bytes <= free_bytes) return configuration;
  }
  return Smallest(run);
}

}  // namespace neap
