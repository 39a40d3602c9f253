#include "neap/core/run/file_planner.h"

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/budget_refusal.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/verifier/verifier.h"

namespace neap {
namespace {

constexpr int64_t kMaxPlanFileBytes = int64_t{1} << 30;

// The same error, with `what` prepended.
absl::Status Of(const std::string& what, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
}

class FilePlanner final : public Planner {
 public:
  FilePlanner(std::string path, neap::Plan plan, std::shared_ptr<const Planner> evaluation)
      : path_(std::move(path)), plan_(std::move(plan)), evaluation_(std::move(evaluation)) {}

  int64_t budget_bytes() const override { return plan_.budget_bytes; }
  // What a plan has on the host may be there by ProgramOptions::offload_params or ::homes, and it
  // may have nothing there because all parameters are too small to be offloaded.
  absl::StatusOr<ChosenProgram> Choose(LowerWith lower, const PlanRequest& /*request*/,
                                       const DeviceDescription& /*device*/,
                                       EngineCatalog& /*catalog*/) const override {
    ProgramChoice choice = {.sub_batches = plan_.sub_batches,
                            .batch_norm_in_parts = plan_.batch_norm_in_parts};
    for (const bool offloads : {false, true}) {
      choice.offload_params = offloads;
      for (const BucketSizes& buckets : kBucketChoices) {
        choice.buckets = buckets;
        const absl::StatusOr<Program> program = lower(choice);
        if (program.ok() && MatchesProgram(plan_, *program).ok()) return ChosenProgram{choice};
        const bool has_sums = program.ok() && program->options.share.ranks > 1;
        if (!has_sums) break;
      }
    }
    // Plan() says what does not match.
    choice.offload_params = plan_.host_resident_bytes > 0;
    choice.buckets = {};
    return ChosenProgram{choice};
  }

  absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                  const DeviceDescription& device,
                                  EngineCatalog& catalog) const override {
    if (program.options.mode == Mode::kInference) {
      absl::StatusOr<PlanResult> result = evaluation_->Plan(program, request, device, catalog);
      RETURN_IF_ERROR(Of(absl::StrCat("evaluation beside the plan in ", path_), result.status()));
      return result;
    }
    RETURN_IF_ERROR(CheckHeader(program, device));
    RETURN_IF_ERROR(Of(path_, MatchesProgram(plan_, program)));
    if (request.budget_bytes < plan_.arena_bytes) {
      const std::string message = absl::StrCat(
          "a budget of ", request.budget_bytes, " bytes (", FormatBytes(request.budget_bytes),
          ") is too small for the plan in ", path_, ", which takes ", plan_.arena_bytes, " bytes (",
          FormatBytes(plan_.arena_bytes), ")");
      return BudgetRefusal(message, plan_.arena_bytes);
    }
    return ResultFor(program, device);
  }

  absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlanRequest& request,
                                        const DeviceDescription& device,
                                        EngineCatalog& catalog) const override {
    if (program.options.mode == Mode::kInference)
      return evaluation_->MinimumBudget(program, request, device, catalog);
    return plan_.arena_bytes;
  }

 private:
  // Checks the properties that a user knows, before tensors and steps are compared one by one.
  absl::Status CheckHeader(const Program& program, const DeviceDescription& device) const {
    RETURN_IF_ERROR(CheckSame("network", plan_.net, program.net.name));
    RETURN_IF_ERROR(CheckSame("batch", absl::StrCat(plan_.batch), absl::StrCat(program.net.batch)));
    RETURN_IF_ERROR(CheckSame("dtype", Name(plan_.dtype), Name(program.net.dtype)));
    RETURN_IF_ERROR(CheckSame("layout", Name(plan_.layout), Name(program.net.layout)));
    if (plan_.device_kind.empty()) return absl::OkStatus();
    return CheckSame("device kind", plan_.device_kind, device.kind);
  }
  absl::Status CheckSame(std::string_view what, std::string_view planned,
                         std::string_view wanted) const {
    if (planned == wanted) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path_, ": the plan is for ", std::string(what),
                                                   " ", std::string(planned), ", not for ",
                                                   std::string(wanted)));
  }

  PlanResult ResultFor(const Program& program, const DeviceDescription& device) const {
    PlanResult result = {.plan = plan_, .costs = TransferCosts(device)};
    for (const Action& action : plan_.actions) {
      const auto* const compute = std::get_if<ComputeAction>(&action);
      if (compute == nullptr) continue;
      result.costs.compute_seconds.push_back(PredictSeconds(
          program, program.steps[compute->step.index()], device, compute->recompute));
    }
    const size_t runs = result.costs.compute_seconds.size();
    result.sources.assign(runs, TimeSource::kModel);
    result.stats = {.minimum_budget_bytes = plan_.arena_bytes,
                    .runs = static_cast<int64_t>(runs),
                    .batch_copy_ms = BatchCopySeconds(plan_, result.costs) * 1e3};
    return result;
  }

  const std::string path_;
  const neap::Plan plan_;
  const std::shared_ptr<const Planner> evaluation_;
};

absl::Status CheckPool(std::string_view pool, int64_t bytes, int64_t limit) {
  if (bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the plan takes ", bytes, " bytes (", FormatBytes(bytes), ") of the ", std::string(pool),
      "'s memory, more than the budget of ", limit, " bytes (", FormatBytes(limit), ") there"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Planner>> PlannerFromFile(
    const std::string& path, std::shared_ptr<const Planner> evaluation,
    const FilePlanLimits& limits) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  ASSIGN_OR_RETURN(const std::string text, file.ReadAll(kMaxPlanFileBytes));
  absl::StatusOr<Plan> plan = Plan::FromJson(text);
  RETURN_IF_ERROR(Of(path, plan.status()));
  RETURN_IF_ERROR(Of(path, Verify(*plan)));
  RETURN_IF_ERROR(Of(path, CheckPool("host", plan->host_pool_bytes, limits.host_budget_bytes)));
  RETURN_IF_ERROR(Of(path, CheckPool("peer", plan->peer_pool_bytes, limits.peer_budget_bytes)));
  return std::make_shared<FilePlanner>(path, *std::move(plan), std::move(evaluation));
}

}  // namespace neap
