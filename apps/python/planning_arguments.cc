#include "apps/python/planning_arguments.h"

#include "absl/strings/str_cat.h"
#include "apps/cli/flags.h"
#include "apps/cli/kernel_flags.h"
#include "apps/python/training_arguments.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap::python {
namespace {

absl::StatusOr<std::optional<int64_t>> Optional(const char* name, const std::optional<Bytes>& bytes,
                                                int64_t least = 1) {
  if (!bytes.has_value()) return std::nullopt;
  const absl::StatusOr<int64_t> parsed = ToBytes(*bytes, least);
  if (!parsed.ok()) return Named(name, parsed.status());
  return *parsed;
}

absl::StatusOr<apps::Budget> BudgetOf(const std::optional<Bytes>& given, apps::BudgetUnits units) {
  const auto* const text = given.has_value() ? std::get_if<std::string>(&*given) : nullptr;
  apps::Budget budget;
  if (text == nullptr) {
    ASSIGN_OR_RETURN(budget.bytes, Optional("budget", given));
    return budget;
  }
  const absl::Status read = apps::ReadBudget(units, &budget).read(*text);
  if (!read.ok()) return Named("budget", read);
  return budget;
}

// Lets the command's flag read the text, if there is one.
absl::Status Read(const char* name, const std::optional<std::string>& text,
                  const apps::FlagValue& flag) {
  if (!text.has_value()) return absl::OkStatus();
  const absl::Status read = flag.read(*text);
  return read.ok() ? read : Named(name, read);
}

absl::Status AddTimes(const TimesArguments& times, apps::KernelFlags& kernels) {
  if (times.database.has_value()) kernels.database = times.database->string();
  RETURN_IF_ERROR(Read("divisions", times.divisions, apps::ReadDivisions(&kernels.divisions)));
  return Read("workspace_rule", times.workspace_rule,
              apps::ReadWorkspaceRule(&kernels.workspace_rule));
}

}  // namespace

absl::Status Named(const char* name, const absl::Status& error) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", error.message()));
}

absl::StatusOr<Optimizer> PlannedOptimizer(const std::string& name, std::optional<float> momentum,
                                           float clip_norm, float average_decay) {
  ASSIGN_OR_RETURN(Optimizer optimizer,
                   ToOptimizer(name, momentum, /*nesterov=*/false, std::nullopt, std::nullopt));
  optimizer.clip_norm = clip_norm;
  optimizer.average_decay = average_decay;
  return optimizer;
}

absl::StatusOr<int64_t> ToBytes(const Bytes& bytes, int64_t least) {
  if (const auto* const text = std::get_if<std::string>(&bytes)) return ParseBytes(*text, least);
  const int64_t number = std::get<int64_t>(bytes);
  if (number >= least) return number;
  return absl::InvalidArgumentError(absl::StrCat(number, " bytes: it must be at least ", least));
}

absl::StatusOr<apps::PlanningFlags> FlagsOf(const PlanningArguments& arguments,
                                            apps::BudgetUnits units) {
  apps::PlanningFlags flags;
  ASSIGN_OR_RETURN(flags.budget, BudgetOf(arguments.budget, units));
  ASSIGN_OR_RETURN(flags.host_budget_bytes, Optional("host_budget", arguments.host_budget, 0));
  if (arguments.peer.has_value() != arguments.peer_budget.has_value())
    return absl::InvalidArgumentError("peer and peer_budget belong together");
  ASSIGN_OR_RETURN(flags.peer_budget_bytes, Optional("peer_budget", arguments.peer_budget));
  flags.peer = arguments.peer.value_or(DeviceName{}).text;
  RETURN_IF_ERROR(AddTimes(arguments.times, flags.kernels));
  flags.device = arguments.device.value_or(DeviceName{}).text;
  flags.policy = arguments.policy.value_or("");
  flags.sub_batches = arguments.sub_batches;
  flags.batch_norm_in_parts = arguments.batch_norm_in_parts;
  flags.offload_params = arguments.offload_params;
  flags.strict = arguments.strict;
  return flags;
}

}  // namespace neap::python
