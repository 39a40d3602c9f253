// plan(), and Plan with its tables.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/plan/html_report.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/planned.h"
#include "apps/python/released.h"
#include "apps/python/table.h"
#include "neap/core/base/file.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/plan/tensor_history.h"
#include "neap/core/plan/trace.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;
using Path = std::filesystem::path;

Planned MakePlanned(const Graph& net, std::optional<Bytes> budget, std::optional<DeviceName> device,
                    std::optional<std::string> policy, std::optional<Bytes> host_budget,
                    std::optional<int64_t> sub_batches, bool batch_norm_in_parts,
                    bool offload_params, bool strict, const std::string& optimizer,
                    std::optional<float> momentum, float clip_norm, float ema,
                    std::optional<Path> database, std::optional<std::string> divisions,
                    std::optional<std::string> workspace_rule) {
  const PlanningArguments arguments = {
      .device = std::move(device),
      .budget = std::move(budget),
      .host_budget = std::move(host_budget),
      .policy = std::move(policy),
      .sub_batches = sub_batches,
      .batch_norm_in_parts = batch_norm_in_parts,
      .offload_params = offload_params,
      .strict = strict,
      .times = {.database = std::move(database),
                .divisions = std::move(divisions),
                .workspace_rule = std::move(workspace_rule)},
      .optimizer = Checked(PlannedOptimizer(optimizer, momentum, clip_norm, ema))};
  return Checked(Released([&] { return PlanFor(net, arguments); }));
}

// One row for each step that runs, in order; reruns have rows of their own.
nb::object StepsOf(const Planned& planned) {
  const neap::Plan& plan = planned.plan;
  Table table({{"step", "i4"},
               {"layer", "U"},
               {"phase", "U"},
               {"type", "U"},
               {"recompute", "?"},
               {"begin_us", "f8"},
               {"end_us", "f8"},
               {"live_bytes", "i8"},
               {"live_activation_bytes", "i8"},
               {"workspace_bytes", "i8"},
               {"free_bytes", "i8"},
               {"host_bytes", "i8"},
               {"engine", "U"}});
  const std::vector<StepMemory> memory = MemoryPerStep(plan);
  size_t row = 0;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    if (!std::holds_alternative<ComputeAction>(plan.actions[i])) continue;
    const StepMemory& at = memory[row++];
    const PlanStep& step = plan.steps[at.step.index()];
    const ActionTime& time = planned.timeline.actions[i];
    table.Add(nb::make_tuple(at.step.value, step.layer, std::string(Name(step.phase)), step.type,
                             at.recompute, time.begin_us, time.end_us, at.live_bytes,
                             at.live_activation_bytes, at.workspace_bytes, at.free_bytes,
                             at.host_bytes, at.engine));
  }
  return table.ToNumpy();
}

nb::object TensorsOf(const Planned& planned) {
  const neap::Plan& plan = planned.plan;
  Table table({{"name", "U"},
               {"role", "U"},
               {"dtype", "U"},
               {"shape", "U"},
               {"bytes", "i8"},
               {"offloads", "i4"},
               {"reruns", "i4"},
               {"transfer_us", "f8"},
               {"stall_us", "f8"},
               {"recompute_us", "f8"},
               {"fate", "U"}});
  for (const TensorHistory& history : TensorHistories(plan, planned.timeline)) {
    const PlanTensor& tensor = plan.tensors[history.tensor.index()];
    table.Add(nb::make_tuple(tensor.name, std::string(Name(tensor.role)),
                             std::string(Name(tensor.dtype)), tensor.shape.ToString(), tensor.bytes,
                             history.trips.size(), history.reruns.size(), history.transfer_us,
                             history.stall_us, history.recompute_us, Explain(plan, history)));
  }
  return table.ToNumpy();
}

std::string ReportOf(const Planned& planned) {
  return apps::HtmlReport(planned.plan, planned.timeline, {.has_budget = planned.has_budget});
}

// The page of `neap plan --report` in a frame.
std::string FrameOf(const Planned& planned) {
  const nb::object escape = nb::module_::import_("html").attr("escape");
  const auto page = nb::cast<std::string>(escape(ReportOf(planned)));
  return absl::StrCat("<iframe style=\"width:100%;height:640px;border:0\" srcdoc=\"", page,
                      "\"></iframe>");
}

std::string ToText(const Planned& planned) {
  const neap::Plan& plan = planned.plan;
  return absl::StrCat("<neap.Plan of ", plan.net, ", batch ", plan.batch, ", policy ", plan.policy,
                      ": ", FormatBytes(plan.peak_bytes), ", ", plan.predicted_ms, " ms on ",
                      plan.device, ">");
}

void BindWriters(nb::class_<Planned>& plan) {
  plan.def(
          "summary", [](const Planned& planned) { return planned.plan.Summary(); },
          "What is kept, moved and recomputed, as text.")
      .def("report", ReportOf, "The page of `neap plan --report`, as HTML.")
      .def(
          "to_json", [](const Planned& planned) { return planned.plan.ToJson(); },
          "The plan file, which `neap train --plan` runs.")
      .def(
          "trace",
          [](const Planned& planned) { return TimelineTrace(planned.plan, planned.timeline); },
          "The predicted timeline as a Chrome trace, as JSON.")
      .def("__repr__", ToText)
      .def("__str__", [](const Planned& planned) { return planned.plan.Summary(); })
      .def("_repr_html_", FrameOf);
}

}  // namespace

void BindPlan(nb::module_& module) {
  nb::class_<Planned> plan(module, "Plan",
                           "What happens to every byte during one iteration of training.");
  plan.def_prop_ro(
          "net", [](const Planned& p) { return p.plan.net; }, "The network's name.")
      .def_prop_ro(
          "batch", [](const Planned& p) { return p.plan.batch; }, "Images in a batch.")
      .def_prop_ro(
          "sub_batches", [](const Planned& p) { return p.plan.sub_batches; },
          "In how many parts the batch is run.")
      .def_prop_ro(
          "batch_norm_in_parts", [](const Planned& p) { return p.plan.batch_norm_in_parts; },
          "Whether batch norms have the statistics of each part.")
      .def_prop_ro(
          "dtype", [](const Planned& p) { return std::string(Name(p.plan.dtype)); },
          "The element type.")
      .def_prop_ro(
          "policy", [](const Planned& p) { return p.plan.policy; }, "How the plan was made.")
      .def_prop_ro(
          "device", [](const Planned& p) { return p.plan.device; },
          "The device for which it was made.")
      .def_prop_ro(
          "budget_bytes", [](const Planned& p) { return p.plan.budget_bytes; },
          "What the arena may take.")
      .def_prop_ro(
          "minimum_bytes", [](const Planned& p) { return p.stats.minimum_budget_bytes; },
          "The smallest budget that is not refused.")
      .def_prop_ro(
          "arena_bytes", [](const Planned& p) { return p.plan.arena_bytes; },
          "What the session reserves.")
      .def_prop_ro(
          "peak_bytes", [](const Planned& p) { return p.plan.peak_bytes; },
          "Of device memory, which is what will be measured.")
      .def_prop_ro(
          "host_peak_bytes", [](const Planned& p) { return p.plan.host_peak_bytes; },
          "Of copies in pinned host memory.")
      .def_prop_ro(
          "predicted_ms", [](const Planned& p) { return p.plan.predicted_ms; }, "Of an iteration.")
      .def_prop_ro(
          "runs", [](const Planned& p) { return p.stats.runs; }, "Runs of kernels.")
      .def_prop_ro(
          "measured_runs", [](const Planned& p) { return p.stats.measured_runs; },
          "Runs whose times were measured, or lie between measured ones.")
      .def_prop_ro("steps", StepsOf, nb::sig("def steps(self) -> numpy.ndarray"),
                   "A structured array with one row for each step that runs.")
      .def_prop_ro("tensors", TensorsOf, nb::sig("def tensors(self) -> numpy.ndarray"),
                   "A structured array with one row for each tensor.");
  BindWriters(plan);
  module.def(
      "plan", MakePlanned, "net"_a, "budget"_a = nb::none(), "device"_a = nb::none(), nb::kw_only(),
      "policy"_a = nb::none(), "host_budget"_a = nb::none(), "sub_batches"_a = nb::none(),
      "batch_norm_in_parts"_a = false, "offload_params"_a = false, "strict"_a = false,
      "optimizer"_a = "sgd", "momentum"_a = nb::none(), "clip_norm"_a = 0.0F, "ema"_a = 0.0F,
      "database"_a = nb::none(), "divisions"_a = nb::none(), "workspace_rule"_a = nb::none(),
      "Plans one iteration of training as `neap plan` does, and verifies the plan. Needs no "
      "GPU: `device` is also a card that\n`neap devices` lists, such as \"rtx4090\", or a "
      "file of `neap devices --describe`. The optimizer's arguments are those\nof Session on "
      "which memory depends. Kernels are chosen by the times in `database`, as in Session.");
}

}  // namespace neap::python
