#include "neap/memory/step_engines.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/status_macros.h"

namespace neap {
namespace {

const Engine* SmallestOf(const std::vector<Engine>& engines) {
  const auto smallest = std::min_element(
      engines.begin(), engines.end(),
      [](const Engine& a, const Engine& b) { return a.workspace_bytes < b.workspace_bytes; });
  return smallest == engines.end() ? nullptr : &*smallest;
}

// Leaves the one engine that strict mode uses.
void KeepStrictEngine(std::vector<Engine>& engines) {
  const auto fixed = std::find_if(engines.begin(), engines.end(), [](const Engine& engine) {
    return engine.workspace_bytes <= kStrictWorkspaceBytes;
  });
  const Engine keep = fixed == engines.end() ? *SmallestOf(engines) : *fixed;
  engines = {keep};
}

absl::StatusOr<StepEngines> ListFor(const Program& program, const Run& run, bool strict,
                                    EngineCatalog& catalog) {
  const Step& step = program.steps[run.step.index()];
  StepEngines list;
  if (program.options.accounting == Accounting::kPaper) return list;
  if (!run.recompute) list.scratch_bytes = program.AccumulationScratchBytes(step);
  absl::StatusOr<std::vector<Engine>> engines =
      catalog.Engines(program.Signature(step, run.recompute));
  if (!engines.ok()) {
    return absl::Status(engines.status().code(),
                        absl::StrCat(program.StepName(step), ": ", engines.status().message()));
  }
  list.only_one = engines->size() == 1;
  for (Engine& engine : *engines) {
    if (engine.deterministic) list.engines.push_back(std::move(engine));
  }
  if (list.engines.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(program.StepName(step), ": the library has no deterministic engine"));
  }
  if (strict) KeepStrictEngine(list.engines);
  return list;
}

}  // namespace

absl::StatusOr<EngineTable> EngineTable::List(const Program& program, bool strict,
                                              EngineCatalog& catalog) {
  EngineTable table;
  table.strict_ = strict;
  table.again_.resize(program.steps.size());
  table.runs_again_.resize(program.steps.size(), false);
  for (const Step& step : program.steps) {
    ASSIGN_OR_RETURN(StepEngines list, ListFor(program, {step.id}, strict, catalog));
    table.first_.push_back(std::move(list));
  }
  return table;
}

absl::Status EngineTable::AddReruns(const Program& program, const ComputeSequence& runs,
                                    EngineCatalog& catalog) {
  for (const Run& run : runs) {
    const size_t step = run.step.index();
    if (!run.recompute || runs_again_[step]) continue;
    ASSIGN_OR_RETURN(again_[step], ListFor(program, run, true, catalog));
    runs_again_[step] = true;
    if (!first_[step].engines.empty()) KeepStrictEngine(first_[step].engines);
  }
  return absl::OkStatus();
}

const Engine* EngineTable::Smallest(const Run& run) const { return SmallestOf(Of(run).engines); }

const Engine* EngineTable::FirstThatFits(const Run& run, int64_t free_bytes) const {
  const StepEngines& list = Of(run);
  for (const Engine& engine : list.engines) {
    if (engine.workspace_bytes + list.scratch_bytes <= free_bytes) return &engine;
  }
  return Smallest(run);
}

int64_t EngineTable::SmallestWorkspace(const Run& run) const {
  const Engine* smallest = Smallest(run);
  return Of(run).scratch_bytes + (smallest == nullptr ? 0 : smallest->workspace_bytes);
}

}  // namespace neap
