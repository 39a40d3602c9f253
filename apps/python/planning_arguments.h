// The arguments of planning that plan(), Session(), peak_batch() and curve() share. They are those
// of the command's flags, so that both make the same plans.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/planning_flags.h"
#include "apps/python/argument_names.h"
#include "neap/core/plan/planner.h"
#include "neap/core/step/optimizer.h"
#include "neap/memory/planner_options.h"

namespace neap::python {

// A number, or a text such as "12GiB"; where a percentage is taken, "60%" of the natural peak.
using Bytes = std::variant<int64_t, std::string>;

// The measured times by which plans choose kernels.
struct TimesArguments {
  std::optional<std::filesystem::path> database = {};  // "none": by none
  std::optional<std::string> divisions = {};
  std::optional<std::string> workspace_rule = {};
};

struct PlanningArguments {
  std::optional<DeviceName> device = {};
  std::optional<Bytes> budget = {};
  std::optional<Bytes> host_budget = {};
  std::optional<std::string> policy = {};
  std::optional<int64_t> sub_batches = {};
  bool batch_norm_in_parts = false;
  bool offload_params = false;
  bool strict = false;
  TimesArguments times = {};
  std::optional<DeviceName> peer = {};  // with a budget
  std::optional<Bytes> peer_budget = {};
  Optimizer optimizer = {};  // its tensors are planned, except for a session
};

// The optimizer of the arguments on which memory depends. Errors: those of ToOptimizer().
absl::StatusOr<Optimizer> PlannedOptimizer(const std::string& name, std::optional<float> momentum,
                                           float clip_norm, float average_decay);

// INVALID_ARGUMENT that begins with the name of the argument.
absl::Status Named(const char* name, const absl::Status& error);

// Errors: INVALID_ARGUMENT for anything but a number of at least `least` bytes.
absl::StatusOr<int64_t> ToBytes(const Bytes& bytes, int64_t least = 1);

// Errors: those of ToBytes(), naming the argument; INVALID_ARGUMENT naming an argument of unknown
// text, for a budget in percent where only bytes are taken, and for one of a peer and its budget
// without the other.
absl::StatusOr<apps::PlanningFlags> FlagsOf(
    const PlanningArguments& arguments,
    apps::BudgetUnits units = apps::BudgetUnits::kBytesOrPercent);

}  // namespace neap::python
