// Larger budgets are never slower, with the library's engines for an H200 and by the cost model.
//
// In CI few budgets are planned. All of them, for eight networks and every policy, and by the times
// of a database as well (hours on two cores):
//
//   export NEAP_SWEEP_BUDGETS=200 NEAP_SWEEP_NETS=all NEAP_SWEEP_DATABASE=h200.db
//   build/release/tests/apps_tests --test-case='sweep:*'
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/measured_device.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/program_choice.h"
#include "neap/nets/registry.h"
#include "tests/memory/planning.h"

namespace neap::testing {
namespace {

struct SweptNet {
  std::string name;
  int64_t batch;
  DType dtype = DType::kBf16;
};

const std::vector<SweptNet> kAll = {{"alexnet", 256, DType::kFp32},
                                    {"alexnet", 256},
                                    {"vgg16", 64},
                                    {"resnet50", 64},
                                    {"densenet121", 32},
                                    {"inception_v4", 32},
                                    {"unet", 4},
                                    {"mobilenet_v2", 64}};
const std::vector<SweptNet> kFew = {{"alexnet", 256, DType::kFp32}};

// The value of a variable of the environment; empty if it is not set.
std::string Given(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

int BudgetCount() {
  int count = 0;
  return absl::SimpleAtoi(Given("NEAP_SWEEP_BUDGETS"), &count) && count > 1 ? count : 6;
}

std::vector<SweptNet> Nets() {
  const std::string given = Given("NEAP_SWEEP_NETS");
  if (given.empty()) return kFew;
  if (given == "all") return kAll;
  std::vector<SweptNet> nets;
  for (const SweptNet& net : kAll) {
    if (net.name == given) nets.push_back(net);
  }
  return nets;
}

std::vector<std::string> SweptPolicies() {
  const std::string given = Given("NEAP_SWEEP_POLICIES");
  if (!given.empty()) return absl::StrSplit(given, ',');
  std::vector<std::string> names;
  for (const Policy& policy : Policies()) names.emplace_back(policy.name);
  return names;
}

apps::PlanTarget Target() {
  const std::string database = Given("NEAP_SWEEP_DATABASE");
  const apps::KernelFlags kernels = {.database = database.empty() ? "none" : database};
  return apps::OpenPlanTargetBy(kernels, "h200", /*peer=*/"").value();
}

class Sweep {
 public:
  Sweep(const SweptNet& net, const apps::PlanTarget& target)
      : graph_(nets::Build(net.name, {.batch = net.batch,
                                      .dtype = net.dtype,
                                      .layout = net.dtype == DType::kFp32 ? Layout::kChannelsFirst
                                                                          : Layout::kChannelsLast})
                   .value()),
        target_(target) {}

  // By a choice of the program for each budget, too, if `options` leave one.
  absl::StatusOr<double> Milliseconds(const PlannerOptions& options) const {
    const auto lower = [&](const ProgramChoice& choice) {
      return Lower(graph_,
                   {.offload_params = choice.offload_params, .sub_batches = choice.sub_batches},
                   target_.description);
    };
    ASSIGN_OR_RETURN(const ChosenProgram chosen,
                     ChooseProgram(lower, options, target_.description, target_.engines()));
    if (chosen.plan.has_value()) return IterationMs(*chosen.plan);
    ASSIGN_OR_RETURN(const Program program, lower(chosen.choice));
    ASSIGN_OR_RETURN(const PlanResult result,
                     MakePlan(program, options, target_.description, target_.engines()));
    return IterationMs(result);
  }

  // In so many budgets, from the smallest to more than what the plan takes without one.
  void Check(PlannerOptions options, int count) const {
    const Program program = Lower(graph_, {}, target_.description).value();
    const int64_t least =
        MinimumBudget(program, options, target_.description, target_.engines()).value();
    options.budget_bytes = kUnlimited;
    const int64_t most =
        MakePlan(program, options, target_.description, target_.engines()).value().plan.peak_bytes;
    std::vector<int64_t> budgets;
    for (int i = 0; i < count; ++i)
      budgets.push_back(least + (most * 5 / 4 - least) / (count - 1) * i);
    Check(options, budgets);
  }

  void Check(PlannerOptions options, const std::vector<int64_t>& budgets) const {
    double fastest = 0;
    int64_t fastest_bytes = 0;
    for (const int64_t budget_bytes : budgets) {
      options.budget_bytes = budget_bytes;
      const absl::StatusOr<double> ms = Milliseconds(options);
      REQUIRE_MESSAGE(ms.ok(), ms.status().ToString());
      CAPTURE(options.policy);
      CAPTURE(options.budget_bytes);
      CAPTURE(fastest_bytes);
      if (fastest > 0) CHECK(*ms <= fastest * 1.001);
      if (fastest > 0 && *ms >= fastest) continue;
      fastest = *ms;
      fastest_bytes = options.budget_bytes;
    }
  }

 private:
  const Graph graph_;
  const apps::PlanTarget& target_;
};

TEST_CASE("sweep: no policy is slower in a larger budget") {
  const apps::PlanTarget target = Target();
  for (const SweptNet& net : Nets()) {
    CAPTURE(net.name);
    const Sweep sweep(net, target);
    for (const std::string& policy : SweptPolicies()) {
      PlannerOptions options = {.policy = policy, .kernels = target.kernels};
      if (!HasRoomFor(FindPolicy(policy).value(), options)) continue;
      options.sub_batches = 1;
      options.offload_params = false;
      sweep.Check(options, BudgetCount());
    }
    PlannerOptions chosen = {.policy = "auto", .kernels = target.kernels};
    CAPTURE("with a choice of the program");
    sweep.Check(chosen, BudgetCount());
  }
}

TEST_CASE("sweep: a workspace in bytes that are left over does not wait for a copy") {
  const apps::PlanTarget target = Target();
  const Sweep sweep({"alexnet", 256}, target);
  PlannerOptions options = {.policy = "cost-aware", .kernels = target.kernels};
  options.sub_batches = 1;
  options.offload_params = false;
  sweep.Check(options, 200);
}

// In each but the first, a plan with parameters on the host is faster, among many orders of runs.
TEST_CASE("sweep: the search with parameters on the host does not end too early") {
  const apps::PlanTarget target = Target();
  const Sweep sweep({"mobilenet_v2", 64}, target);
  sweep.Check({.policy = "auto", .kernels = target.kernels},
              std::vector<int64_t>{386314174, 400550824, 414787474, 421905799});
}

}  // namespace
}  // namespace neap::testing
