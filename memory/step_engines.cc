#include "neap/memory/step_engines.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "neap/core/cost_model.h"
#include "neap/core/status_macros.h"
#include "neap/layers/conv/divided_kernel.h"
#include "neap/layers/signature_text.h"

namespace neap {
namespace {

bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

bool MayHave(DivisionPolicy policy, int64_t part, int64_t batch, int64_t granularity) {
  if (part == batch) return true;
  if (policy == DivisionPolicy::kUndivided || part % granularity != 0) return false;
  return policy == DivisionPolicy::kAll || IsPowerOfTwo(part);
}

const Configuration& SmallestOf(const std::vector<Configuration>& configurations) {
  return *std::min_element(configurations.begin(), configurations.end(),
                           [](const Configuration& a, const Configuration& b) {
                             return a.workspace_bytes < b.workspace_bytes;
                           });
}

// Leaves the one that strict mode uses.
void KeepOne(std::vector<Configuration>& configurations) {
  const auto fixed = std::find_if(
      configurations.begin(), configurations.end(),
      [](const Configuration& c) { return c.workspace_bytes <= kStrictWorkspaceBytes; });
  Configuration keep = fixed == configurations.end() ? SmallestOf(configurations) : *fixed;
  configurations = {std::move(keep)};
}

enum class Choice : uint8_t { kAll, kOneForAll };  // for every budget the same one

// Lists the configurations of steps, each signature once.
class Lister {
 public:
  Lister(const Program& program, const KernelOptions& options, bool strict, Choice choice,
         const DeviceDescription& device, EngineCatalog& catalog)
      : program_(program),
        options_(options),
        strict_(strict),
        choice_(choice),
        device_(device),
        catalog_(catalog) {}

  absl::StatusOr<StepConfigurations> List(const Run& run) {
    const Step& step = program_.steps[run.step.index()];
    const double predicted = PredictSeconds(program_, step, device_, run.recompute);
    if (program_.options.accounting == Accounting::kPaper)
      return StepConfigurations{{{.seconds = predicted}}, /*only_one=*/true};
    absl::StatusOr<StepConfigurations> list =
        OfSignature(program_.Signature(step, run.recompute), predicted);
    if (!list.ok()) {
      return absl::Status(list.status().code(),
                          absl::StrCat(program_.StepName(step), ": ", list.status().message()));
    }
    if (!run.recompute) RETURN_IF_ERROR(AddSums(step, *list));
    return list;
  }

 private:
  absl::StatusOr<StepConfigurations> OfSignature(const StepSignature& signature,
                                                 double predicted_seconds) {
    if (const auto known = known_.find(signature); known != known_.end()) return known->second;
    ASSIGN_OR_RETURN(std::vector<Engine> engines, catalog_.Engines(signature));
    StepConfigurations list = {.only_one = engines.size() == 1};
    std::vector<TimedEngine> timed;
    if (options_.timings != nullptr) {
      ASSIGN_OR_RETURN(timed, options_.timings->Of(signature));
    }
    if (!strict_ && !list.only_one) {
      ASSIGN_OR_RETURN(list.configurations, Fastest(signature, engines, timed));
      list.is_measured = !list.configurations.empty();
    }
    if (!list.is_measured) {
      ASSIGN_OR_RETURN(list, InLibraryOrder(signature, engines, timed, predicted_seconds));
    }
    if (choice_ == Choice::kOneForAll) KeepOne(list.configurations);
    return known_.emplace(signature, std::move(list)).first->second;
  }

  // By measured times, the fastest first; empty where there are none.
  absl::StatusOr<std::vector<Configuration>> Fastest(const StepSignature& signature,
                                                     const std::vector<Engine>& engines,
                                                     std::vector<TimedEngine> timed) {
    const int64_t batch = BatchOf(signature);
    const bool is_divisible = IsDivisible(signature);
    const int64_t granularity = is_divisible ? BatchGranularity(signature) : batch;
    std::erase_if(timed, [&](const TimedEngine& engine) {
      if (choice_ == Choice::kOneForAll && !engine.deterministic) return true;
      if (engine.batch == batch) return !Lists(engines, engine.engine);
      return !is_divisible || !MayHave(options_.divisions, engine.batch, batch, granularity);
    });
    Accumulation accumulation = {.scratch_bytes = DivisionScratchBytes(signature)};
    for (const OperandSpec& operand : signature.operands) {
      if (operand.operand.slot != Slot::kParamGrad || !is_divisible) continue;
      ASSIGN_OR_RETURN(const double seconds, AdditionSeconds(operand.tensor));
      accumulation.seconds += seconds;
    }
    const int64_t limit = is_divisible ? options_.workspace_limit_bytes : kUnlimited;
    std::vector<Configuration> front = DesirableConfigurations(timed, batch, limit, accumulation);
    std::reverse(front.begin(), front.end());
    return front;
  }

  // Deterministic ones.
  absl::StatusOr<StepConfigurations> InLibraryOrder(const StepSignature& signature,
                                                    const std::vector<Engine>& engines,
                                                    const std::vector<TimedEngine>& timed,
                                                    double predicted_seconds) {
    StepConfigurations list = {.only_one = engines.size() == 1, .is_measured = true};
    const int64_t batch = program_.net.batch;
    for (const Engine& engine : engines) {
      if (!engine.deterministic) continue;
      Configuration configuration = {.parts = {{engine.id, batch}},
                                     .workspace_bytes = engine.workspace_bytes,
                                     .seconds = predicted_seconds};
      const auto time = std::find_if(timed.begin(), timed.end(), [&](const TimedEngine& t) {
        return t.engine == engine.id && t.batch == BatchOf(signature);
      });
      if (time != timed.end()) configuration.seconds = time->seconds;
      list.is_measured = list.is_measured && time != timed.end();
      list.configurations.push_back(std::move(configuration));
    }
    if (list.configurations.empty())
      return absl::FailedPreconditionError("the library has no deterministic engine");
    if (IsDivisible(signature) && !strict_)
      KeepWithin(options_.workspace_limit_bytes, list.configurations);
    return list;
  }

  // The smallest stays, whatever the limit.
  static void KeepWithin(int64_t limit_bytes, std::vector<Configuration>& configurations) {
    const int64_t least = SmallestOf(configurations).workspace_bytes;
    std::erase_if(configurations, [&](const Configuration& configuration) {
      return configuration.workspace_bytes > std::max(limit_bytes, least);
    });
  }

  static bool Lists(const std::vector<Engine>& engines, const std::string& id) {
    return std::any_of(engines.begin(), engines.end(),
                       [&](const Engine& engine) { return engine.id == id; });
  }

  // What the executor does besides the kernel: gradients that it must add to sums, and the scratch
  // space for those.
  absl::Status AddSums(const Step& step, StepConfigurations& list) {
    double seconds = 0;
    for (const Use& use : step.reads) {
      if (use.operand.slot != Slot::kAddend) continue;
      ASSIGN_OR_RETURN(const double addition, AdditionSeconds(program_.tensor(use.tensor).spec));
      seconds += addition;
    }
    if (!step.accumulates_natively) {
      for (const Use& use : step.accumulates) {
        if (use.operand.slot != Slot::kInputGrad) continue;
        ASSIGN_OR_RETURN(const double addition, AdditionSeconds(program_.tensor(use.tensor).spec));
        seconds += addition;
      }
    }
    const int64_t scratch_bytes = program_.AccumulationScratchBytes(step);
    for (Configuration& configuration : list.configurations) {
      configuration.workspace_bytes += scratch_bytes;
      configuration.seconds += seconds;
    }
    return absl::OkStatus();
  }

  // Nothing where nothing was measured: the cost model's step has it.
  absl::StatusOr<double> AdditionSeconds(const TensorSpec& spec) {
    if (options_.timings == nullptr) return 0.0;
    ASSIGN_OR_RETURN(const std::vector<TimedEngine> timed,
                     options_.timings->Of(AdditionSignature(spec)));
    double fastest = 0;
    for (const TimedEngine& engine : timed) {
      if (fastest == 0 || engine.seconds < fastest) fastest = engine.seconds;
    }
    return fastest;
  }

  const Program& program_;
  const KernelOptions& options_;
  bool strict_;
  Choice choice_;
  const DeviceDescription& device_;
  EngineCatalog& catalog_;
  absl::flat_hash_map<StepSignature, StepConfigurations> known_;
};

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
  const Choice choice = strict ? Choice::kOneForAll : Choice::kAll;
  Lister lister(program, options, strict, choice, device, catalog);
  for (const Step& step : program.steps) {
    ASSIGN_OR_RETURN(StepConfigurations list, lister.List({step.id}));
    table.first_.push_back(std::move(list));
  }
  return table;
}

absl::Status EngineTable::AddReruns(const Program& program, const ComputeSequence& runs,
                                    EngineCatalog& catalog) {
  Lister lister(program, options_, strict_, Choice::kOneForAll, device_, catalog);
  for (const Run& run : runs) {
    const size_t step = run.step.index();
    if (!run.recompute || runs_again_[step]) continue;
    ASSIGN_OR_RETURN(first_[step], lister.List({run.step}));
    again_[step] = first_[step];
    if (first_[step].only_one) {
      ASSIGN_OR_RETURN(again_[step], lister.List(run));
    }
    runs_again_[step] = true;
  }
  return absl::OkStatus();
}

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
