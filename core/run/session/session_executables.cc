#include "neap/core/run/session/session_executables.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/passes.h"
#include "neap/core/run/external.h"
#include "neap/core/run/session/lower_session.h"
#include "neap/core/run/session/size_programs.h"

namespace neap {
namespace {

SessionPrograms ProgramsOf(const Executables& executables) {
  SessionPrograms programs;
  for (const std::shared_ptr<Executable>& executable : executables.training)
    programs.training.push_back(executable->program);
  if (executables.inference != nullptr) programs.inference = executables.inference->program;
  return programs;
}

std::shared_ptr<Executable> Unbound(const Executable& executable, PlanResult planned) {
  return std::make_shared<Executable>(Executable{.graph = executable.graph,
                                                 .stage = executable.stage,
                                                 .program = executable.program,
                                                 .planned = std::move(planned),
                                                 .is_of_family = executable.is_of_family});
}

// Those of the values that have one: "input 8x3x32x32".
std::string ShapesOf(const Feeds& feeds, const Program* program = nullptr) {
  std::vector<std::string> texts;
  for (const FeedValue& value : feeds) {
    if (value.shape.empty()) continue;
    const Port* const feed = program == nullptr ? nullptr : program->FeedCalled(value.name);
    const Shape shape = feed == nullptr ? StatedShape(value) : program->SpecOf(*feed).shape;
    texts.push_back(absl::StrCat(value.name, " ", shape.ToString()));
  }
  return absl::StrJoin(texts, ", ");
}

}  // namespace

SessionExecutables::SessionExecutables(Device& device, std::shared_ptr<const Planner> planner,
                                       const TrainingOptions& options)
    : device_(device),
      options_(options),
      budget_bytes_(planner->budget_bytes()),
      planner_(std::move(planner), device),
      memory_(device, options.inference_only ? nullptr : options.communicator,
              options.records_iterations),
      change_(planner_) {}

absl::Status SessionExecutables::Create(const Graph& graph, const RankShare& share) {
  ASSIGN_OR_RETURN(
      LoweredSession lowered,
      LowerSession(graph, options_, share, device_.description(), budget_bytes_, planner_));
  whole_ = lowered.training;
  stored_ = lowered.alone.has_value() ? *std::move(lowered.alone) : whole_;
  ASSIGN_OR_RETURN(ExternalAddresses external, AddressesOf(options_.external, whole_));
  memory_.SetExternal(std::move(external));
  const bool accumulates = whole_.options.accumulation.is_on();
  const bool is_family = accumulates || !graph.sizes().empty();
  if (accumulates && !graph.sizes().empty())
    return absl::InvalidArgumentError(
        absl::StrCat(whole_.net.name, ": gradients of batches of several sizes cannot be summed"));
  const auto net = std::make_shared<const Graph>(graph);
  const auto make = [&net, is_family](Program program) {
    return std::make_shared<Executable>(
        Executable{.graph = net, .program = std::move(program), .is_of_family = is_family});
  };
  Executables executables = {.training = {make(std::move(lowered.training))}};
  if (!options_.training_only) executables.inference = make(std::move(lowered.inference));
  ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<Executable>> stages, Stages(net));
  executables.training.insert(executables.training.end(), stages.begin(), stages.end());
  family_ = {net};
  if (!options_.inference_only)  // evaluation has the network's own size
    RETURN_IF_ERROR(AddSizes(graph, executables));
  return UntilBuilt([&]() -> absl::Status {
    ASSIGN_OR_RETURN(SessionPlans plans, planner_.PlanAll(ProgramsOf(executables), budget_bytes_));
    return Replace(executables, std::move(plans));
  });
}

absl::Status SessionExecutables::AddSizes(const Graph& graph, Executables& executables) {
  for (GraphSize size : graph.sizes()) {
    if (size.batch == GraphSize::kFillsBudget) {
      ASSIGN_OR_RETURN(size.batch, FillingBatch(graph, size.extents, whole_, budget_bytes_,
                                                device_.description(), planner_));
    }
    ASSIGN_OR_RETURN(SizedProgram sized, LowerSize(graph, size, whole_, device_.description()));
    size.batch = sized.graph.options().batch;
    sizes_.push_back(size);
    family_.push_back(std::make_shared<const Graph>(std::move(sized.graph)));
    executables.training.push_back(std::make_shared<Executable>(Executable{
        .graph = family_.back(), .program = std::move(sized.program), .is_of_family = true}));
  }
  return absl::OkStatus();
}

// Those behind the first. Batches that add to the gradients have programs of their own only if they
// draw random numbers by an image's place among all.
absl::StatusOr<std::vector<std::shared_ptr<Executable>>> SessionExecutables::Stages(
    const std::shared_ptr<const Graph>& graph) {
  std::vector<std::shared_ptr<Executable>> stages;
  const int64_t batches = whole_.options.accumulation.batches;
  const bool is_random =
      std::any_of(whole_.steps.begin(), whole_.steps.end(), [this](const Step& step) {
        return step.depends_on_part && whole_.Signature(step).layer_seed != 0;
      });
  stages_ = {0};
  for (int64_t index = 1; batches > 1 && index <= batches; ++index) {
    const bool is_own = index == 1 || index == batches || is_random;
    stages_.push_back(is_own ? index : 1);
    if (!is_own) continue;
    ASSIGN_OR_RETURN(Program program,
                     LowerAccumulation(*graph, whole_, index, device_.description()));
    stages.push_back(std::make_shared<Executable>(Executable{
        .graph = graph, .stage = index, .program = std::move(program), .is_of_family = true}));
  }
  return stages;
}

absl::Status SessionExecutables::SetStage(int64_t index) {
  return memory_.Resume(*memory_.Find(*training().graph, stages_[static_cast<size_t>(index)]));
}

absl::Status SessionExecutables::recording() const {
  for (const int64_t stage : stages_)
    RETURN_IF_ERROR(memory_.Find(*training().graph, stage)->recording());
  return absl::OkStatus();
}

std::vector<const Program*> SessionExecutables::Programs() const {
  std::vector<const Program*> programs;
  for (const std::shared_ptr<Executable>& executable : memory_.Kept().training)
    programs.push_back(&executable->program);
  return programs;
}

absl::Status SessionExecutables::UntilBuilt(absl::FunctionRef<absl::Status()> make) {
  absl::Status made = make();
  for (; absl::IsAborted(made); made = make()) planner_.Forget();
  return made;
}

absl::Status SessionExecutables::Replace(Executables executables, SessionPlans plans) {
  for (size_t i = 0; i < plans.training.size(); ++i)
    executables.training[i] = Unbound(*executables.training[i], std::move(plans.training[i]));
  if (plans.inference.has_value())
    executables.inference = Unbound(*executables.inference, *std::move(plans.inference));
  return memory_.Replace(std::move(executables));
}

absl::Status SessionExecutables::SetTrainingGraph(const Graph& graph, const absl::Status& ready,
                                                  absl::FunctionRef<Terms(const Program&)> terms,
                                                  absl::FunctionRef<absl::Status()> gather) {
  if (whole_.options.accumulation.is_on())
    return absl::FailedPreconditionError("the session sums gradients of one graph");
  ASSIGN_OR_RETURN(const bool resumed, ResumeGraph(graph, ready, terms, gather));
  if (resumed) return absl::OkStatus();
  return UntilBuilt([&]() -> absl::Status {
    absl::StatusOr<std::shared_ptr<Executable>> next =
        ready.ok() ? PlanPart(graph) : absl::StatusOr<std::shared_ptr<Executable>>(ready);
    RETURN_IF_ERROR(
        Agree(next.status(), next.ok() ? terms((*next)->program) : Terms{}, options_.communicator));
    RETURN_IF_ERROR(gather());  // of the layers that the next graph leaves out, too
    return Agree(memory_.Add(*std::move(next)), {}, options_.communicator);
  });
}

absl::StatusOr<bool> SessionExecutables::ResumeGraph(const Graph& graph, const absl::Status& ready,
                                                     absl::FunctionRef<Terms(const Program&)> terms,
                                                     absl::FunctionRef<absl::Status()> gather) {
  const Executable* const known = ready.ok() ? memory_.Find(graph) : nullptr;
  ASSIGN_OR_RETURN(const bool resumes, OnAllRanks(known != nullptr, options_.communicator));
  if (!resumes) return false;
  if (options_.communicator != nullptr)
    RETURN_IF_ERROR(Agree(absl::OkStatus(), terms(known->program), options_.communicator));
  RETURN_IF_ERROR(gather());
  RETURN_IF_ERROR(Agree(memory_.Resume(*known), {}, options_.communicator));
  return true;
}

absl::StatusOr<const Executable*> SessionExecutables::Sized(const Feeds& feeds) const {
  const auto has_shapes = [&feeds](const Executable& executable) {
    return std::all_of(feeds.begin(), feeds.end(), [&executable](const FeedValue& value) {
      const Port* const feed = executable.program.FeedCalled(value.name);
      return value.shape.empty() || feed == nullptr ||
             executable.program.SpecOf(*feed).shape == StatedShape(value);
    });
  };
  if (!training().is_of_family && !has_shapes(training())) {
    return absl::InvalidArgumentError(absl::StrCat(
        training().program.net.name, ": a step is given ", ShapesOf(feeds),
        ", but the graph that is trained takes ", ShapesOf(feeds, &training().program)));
  }
  if (!training().is_of_family) return &training();
  std::vector<std::string> sizes;
  for (const std::shared_ptr<const Graph>& graph : family_) {
    const Executable& executable = *memory_.Find(*graph);
    if (has_shapes(executable)) return &executable;
    sizes.push_back(ShapesOf(feeds, &executable.program));
  }
  return absl::InvalidArgumentError(absl::StrCat(whole_.net.name, ": a step is given ",
                                                 ShapesOf(feeds), "; the session trains ",
                                                 absl::StrJoin(sizes, " or ")));
}

absl::StatusOr<std::shared_ptr<Executable>> SessionExecutables::PlanPart(const Graph& graph) {
  auto part =
      std::make_shared<Executable>(Executable{.graph = std::make_shared<const Graph>(graph)});
  ASSIGN_OR_RETURN(part->program, LowerPart(graph, whole_, device_.description()));
  ASSIGN_OR_RETURN(part->planned, planner_.Plan(part->program, budget_bytes_));
  // That of a graph which is of the family contains all others.
  int64_t& minimum = part->planned.stats.minimum_budget_bytes;
  const Executables kept = memory_.Kept();
  for (const std::shared_ptr<Executable>& one : kept.training) {
    if (one->is_of_family) minimum = std::max(minimum, one->planned.stats.minimum_budget_bytes);
  }
  if (kept.inference != nullptr)
    minimum = std::max(minimum, kept.inference->planned.stats.minimum_budget_bytes);
  return part;
}

absl::Status SessionExecutables::SetBudget(int64_t budget_bytes) {
  change_.Drop();
  changed_ = {};
  budget_outcome_ = absl::OkStatus();
  const Executables kept = memory_.Kept();
  RETURN_IF_ERROR(UntilBuilt([&]() -> absl::Status {
    ASSIGN_OR_RETURN(SessionPlans plans, planner_.PlanAll(ProgramsOf(kept), budget_bytes));
    return Replace(kept, std::move(plans));
  }));
  budget_bytes_ = budget_bytes;
  return absl::OkStatus();
}

absl::Status SessionExecutables::SetBudgetAsync(int64_t budget_bytes) {
  Executables kept = memory_.Kept();
  RETURN_IF_ERROR(change_.Start(budget_bytes, ProgramsOf(kept)));
  changed_ = std::move(kept);
  budget_outcome_ = absl::OkStatus();
  return absl::OkStatus();
}

absl::Status SessionExecutables::AwaitBudget() {
  while (std::optional<BudgetChange::Planned> planned = change_.Await())
    TakeBudget(*std::move(planned));
  return budget_outcome_;
}

void SessionExecutables::TakeBudgetIfReady() {
  if (std::optional<BudgetChange::Planned> planned = change_.Take())
    TakeBudget(*std::move(planned));
}

void SessionExecutables::TakeBudget(BudgetChange::Planned planned) {
  const Executables changed = std::exchange(changed_, {});
  budget_outcome_ = planned.plans.status();
  if (!budget_outcome_.ok()) return;
  // Of another size or stage, perhaps, than when planning began.
  const std::shared_ptr<const Graph> current = training().graph;
  const int64_t stage = training().stage;
  budget_outcome_ = Replace(changed, *std::move(planned.plans));
  if (budget_outcome_.ok()) {
    budget_bytes_ = planned.budget_bytes;
    budget_outcome_ = memory_.Resume(*memory_.Find(*current, stage));
  }
  if (!absl::IsAborted(budget_outcome_)) return;
  planner_.Forget();
  budget_outcome_ = SetBudgetAsync(planned.budget_bytes);
}

}  // namespace neap
