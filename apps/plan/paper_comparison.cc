#include "apps/plan/paper_comparison.h"

#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/passes.h"
#include "neap/layers/catalog/default_catalog.h"

namespace neap::apps {
namespace {

// Lifetimes depend neither on engines nor on placement, so the fastest choice of both is used.
absl::StatusOr<Plan> PlanQuickly(const Program& program, const std::string& policy, bool in_place,
                                 const DeviceDescription& device) {
  DefaultCatalog catalog;
  const PlannerOptions options = {
      .policy = policy, .placement = PlacementMethod::kFirstFit, .in_place = in_place};
  ASSIGN_OR_RETURN(PlanResult result, MakePlan(program, options, device, catalog));
  return std::move(result.plan);
}

// Counted from 1; 0 if there is none.
int PeakStep(const Plan& plan) {
  const std::optional<StepMemory> peak = ActivationPeak(MemoryPerStep(plan));
  return peak.has_value() ? peak->serves.value + 1 : 0;
}

struct Saved {
  int64_t bytes = 0;
  int tensors = 0;
};
// Saved tensors alive at the step counted from 1, in a plan without in-place results.
Saved SavedAt(const Plan& plan, int step) {
  Saved saved;
  const auto count = [&](TensorId id, int sign) {
    const PlanTensor& tensor = plan.tensors[id.index()];
    if (tensor.role != Role::kSaved) return;
    saved.bytes += sign * tensor.bytes;
    saved.tensors += sign;
  };
  for (const Action& action : plan.actions) {
    if (const auto* alloc = std::get_if<AllocAction>(&action)) count(alloc->tensor, +1);
    if (const auto* free = std::get_if<FreeAction>(&action)) count(free->tensor, -1);
    const auto* compute = std::get_if<ComputeAction>(&action);
    if (compute != nullptr && compute->step.value + 1 == step) break;
  }
  return saved;
}

struct BackwardReads {
  bool input = false;
  bool output = false;
  bool paper_output = false;
};

// For each layer type, the tensors that backward steps read in the paper but not here.
std::string Unread(const Program& program) {
  std::map<std::string, BackwardReads> by_type;
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kBackwardData && step.phase != Phase::kBackwardParams) continue;
    BackwardReads& reads = by_type[std::string(program.StepType(step))];
    reads.paper_output = program.layers[step.layer.index()].traits.paper_reads_output;
    for (const Use& use : step.reads) {
      reads.input |= use.operand.slot == Slot::kInput;
      reads.output |= use.operand.slot == Slot::kOutput;
    }
  }
  std::string text;
  for (const auto& [type, reads] : by_type) {
    const bool no_output = reads.paper_output && !reads.output;
    if (reads.input && !no_output) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", type, ": ", reads.input ? "" : "x",
                    !reads.input && no_output ? ", " : "", no_output ? "y" : "");
  }
  return text;
}

}  // namespace

absl::StatusOr<PaperComparison> CompareWithPaper(const Graph& graph, const Program& program,
                                                 const PlanResult& exact,
                                                 const PlannerOptions& options,
                                                 const DeviceDescription& device) {
  ASSIGN_OR_RETURN(const Program paper_program,
                   Lower(graph, {.accounting = Accounting::kPaper}, device));
  ASSIGN_OR_RETURN(const Plan paper, PlanQuickly(paper_program, options.policy, false, device));
  ASSIGN_OR_RETURN(const Plan apart, PlanQuickly(program, options.policy, false, device));
  const Saved saved = SavedAt(apart, PeakStep(apart));
  return PaperComparison{
      .paper_bytes = paper.peak_activation_bytes,
      .paper_step = PeakStep(paper),
      .exact_bytes = exact.plan.peak_activation_bytes,
      .unread_bytes = paper.peak_activation_bytes + saved.bytes - apart.peak_activation_bytes,
      .unread = Unread(program),
      .saved_bytes = saved.bytes,
      .saved_tensors = saved.tensors,
      .in_place_bytes = apart.peak_activation_bytes - exact.plan.peak_activation_bytes,
      .in_place_results = exact.stats.in_place_tensors};
}

std::string ToText(const PaperComparison& c) {
  const double percent = c.paper_bytes == 0
                             ? 0
                             : 100.0 * static_cast<double>(c.paper_bytes - c.exact_bytes) /
                                   static_cast<double>(c.paper_bytes);
  std::string text = absl::StrFormat(
      "  paper's accounting   %.3f MiB at step %d; exact is %.3f MiB (%.1f%%) lower:\n",
      InMebibytes(c.paper_bytes), c.paper_step, InMebibytes(c.paper_bytes - c.exact_bytes),
      percent);
  absl::StrAppendFormat(&text, "    %+12.3f MiB  reads that backward kernels do not need (%s)\n",
                        -InMebibytes(c.unread_bytes), c.unread);
  absl::StrAppendFormat(&text, "    %+12.3f MiB  saved for backward instead (%d tensors)\n",
                        InMebibytes(c.saved_bytes), c.saved_tensors);
  absl::StrAppendFormat(&text, "    %+12.3f MiB  in-place results (%d tensors)\n",
                        -InMebibytes(c.in_place_bytes), c.in_place_results);
  return text;
}

}  // namespace neap::apps
