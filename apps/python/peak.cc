// peak_batch() and curve(): tables of what fits and how fast it is.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/predicted_speed.h"
#include "apps/peak/find_peak.h"
#include "apps/plan/speed_curve.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/planned.h"
#include "apps/python/planning_arguments.h"
#include "apps/python/released.h"
#include "apps/python/table.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/passes.h"
#include "neap/memory/policies/policies.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;
using Path = std::filesystem::path;

constexpr int64_t kMaxBatch = 1 << 24;

// One budget, or several.
using Budgets = std::variant<int64_t, std::string, std::vector<Bytes>>;

std::vector<Bytes> ToList(const Budgets& budgets) {
  if (const auto* const number = std::get_if<int64_t>(&budgets)) return {*number};
  if (const auto* const text = std::get_if<std::string>(&budgets)) return {*text};
  return std::get<std::vector<Bytes>>(budgets);
}

absl::StatusOr<apps::PeakResult> FindPeakIn(const Graph& net, const PlanningArguments& arguments,
                                            std::optional<double> keep_percent) {
  apps::PeakFlags flags;
  ASSIGN_OR_RETURN(flags.planning, FlagsOf(arguments, apps::BudgetUnits::kBytes));
  if (flags.planning.policy.empty()) flags.planning.policy = "auto";
  flags.keep_percent = keep_percent;
  flags.optimizer.Set(arguments.optimizer);
  flags.net.graph = net;
  ASSIGN_OR_RETURN(const apps::PlanTarget target, TargetFor(net, flags.planning));
  const apps::Growth batch = {.what = "batch",
                              .most = kMaxBatch,
                              .tries_offloading = true,
                              .apply = [](int64_t n, nets::NetOptions& net) { net.batch = n; }};
  return apps::FindPeak(flags, target, batch, net.options().name);
}

nb::object PeakBatch(const Graph& net, const Budgets& budgets, std::optional<DeviceName> device,
                     std::optional<std::string> policy, std::optional<Bytes> host_budget,
                     std::optional<int64_t> sub_batches, bool batch_norm_in_parts, bool strict,
                     std::optional<double> keep_percent, const std::string& optimizer,
                     std::optional<float> momentum, float clip_norm, float ema,
                     const std::optional<Path>& database,
                     const std::optional<std::string>& divisions,
                     const std::optional<std::string>& workspace_rule) {
  Table table({{"budget_bytes", "i8"},
               {"batch", "i8"},
               {"sub_batches", "i8"},
               {"peak_bytes", "i8"},
               {"predicted_ms", "f8"},
               {"images_per_second", "f8"}});
  for (const Bytes& budget : ToList(budgets)) {
    const PlanningArguments arguments = {
        .device = device,
        .budget = budget,
        .host_budget = host_budget,
        .policy = policy,
        .sub_batches = sub_batches,
        .batch_norm_in_parts = batch_norm_in_parts,
        .strict = strict,
        .times = {.database = database, .divisions = divisions, .workspace_rule = workspace_rule},
        .optimizer = Checked(PlannedOptimizer(optimizer, momentum, clip_norm, ema))};
    const apps::PeakResult peak =
        Checked(Released([&] { return FindPeakIn(net, arguments, keep_percent); }));
    const neap::Plan& plan = peak.planned.plan;
    table.Add(nb::make_tuple(plan.budget_bytes, peak.batch, plan.sub_batches, plan.peak_bytes,
                             plan.predicted_ms, apps::PredictedImagesPerSecond(peak.planned)));
  }
  return table.ToNumpy();
}

absl::StatusOr<apps::SpeedCurve> CurveOf(const Graph& net, const PlanningArguments& arguments,
                                         std::vector<std::string> policies) {
  ASSIGN_OR_RETURN(const apps::PlanningFlags flags, FlagsOf(arguments));
  ASSIGN_OR_RETURN(const apps::PlanTarget target, TargetFor(net, flags));
  ASSIGN_OR_RETURN(
      const Program program,
      Lower(net, LoweringOf(flags.AskedProgram(), arguments.optimizer), target.description));
  const PlannerOptions options = flags.Options(target.description, target.kernels);
  if (policies.empty()) policies = apps::PoliciesOfCurve(options);
  return apps::PlanSpeedCurve(program, options, policies, target);
}

nb::object Curve(const Graph& net, std::optional<DeviceName> device,
                 std::vector<std::string> policies, std::optional<Bytes> host_budget, bool strict,
                 const std::string& optimizer, std::optional<float> momentum, float clip_norm,
                 float ema, std::optional<Path> database, std::optional<std::string> divisions,
                 std::optional<std::string> workspace_rule) {
  const PlanningArguments arguments = {
      .device = std::move(device),
      .host_budget = std::move(host_budget),
      .strict = strict,
      .times = {.database = std::move(database),
                .divisions = std::move(divisions),
                .workspace_rule = std::move(workspace_rule)},
      .optimizer = Checked(PlannedOptimizer(optimizer, momentum, clip_norm, ema))};
  const apps::SpeedCurve curve =
      Checked(Released([&] { return CurveOf(net, arguments, std::move(policies)); }));
  Table table({{"policy", "U"},
               {"budget_bytes", "i8"},
               {"peak_bytes", "i8"},
               {"predicted_ms", "f8"},
               {"images_per_second", "f8"}});
  for (const apps::PolicyCurve& policy : curve.policies) {
    for (size_t i = 0; i < policy.points.size(); ++i) {
      const std::optional<apps::SpeedPoint>& point = policy.points[i];
      if (!point.has_value()) continue;
      table.Add(nb::make_tuple(policy.policy, curve.budgets[i], point->peak_bytes,
                               point->predicted_ms, point->images_per_second));
    }
  }
  return table.ToNumpy();
}

}  // namespace

void BindPeak(nb::module_& module) {
  module.def("peak_batch", PeakBatch, "net"_a, "budget"_a, "device"_a = nb::none(), nb::kw_only(),
             "policy"_a = nb::none(), "host_budget"_a = nb::none(), "sub_batches"_a = nb::none(),
             "batch_norm_in_parts"_a = false, "strict"_a = false, "keep_percent"_a = nb::none(),
             "optimizer"_a = "sgd", "momentum"_a = nb::none(), "clip_norm"_a = 0.0F, "ema"_a = 0.0F,
             "database"_a = nb::none(), "divisions"_a = nb::none(), "workspace_rule"_a = nb::none(),
             "The largest batch of the network in each budget, as `neap peak-batch` finds it: a "
             "structured array with one\nrow for each budget. `keep_percent`: the largest batch "
             "that keeps this part of its speed.");
  module.def(
      "curve", Curve, "net"_a, "device"_a = nb::none(), "policies"_a = std::vector<std::string>{},
      nb::kw_only(), "host_budget"_a = nb::none(), "strict"_a = false, "optimizer"_a = "sgd",
      "momentum"_a = nb::none(), "clip_norm"_a = 0.0F, "ema"_a = 0.0F, "database"_a = nb::none(),
      "divisions"_a = nb::none(), "workspace_rule"_a = nb::none(),
      "The predicted speed in a dozen budgets under each policy (all without `policies`), as "
      "`neap plan --curve` has it:\na structured array with one row for each policy and "
      "budget that fits.");
}

}  // namespace neap::python
