#include "neap/memory/planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/liveness.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/activation.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/transfer/pools.h"
#include "neap/memory/transfer/waits.h"
#include "neap/nets/registry.h"
#include "tests/memory/engines/workspace_catalog.h"
#include "tests/memory/planning.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using testing::H200;

TEST_CASE("a small plan, action by action") {
  // KiB  step  fc   loss | loss  fc     fc
  //            fwd  fwd  | data  params update
  // 10- | the incoming batch
  //   9 |                      +fc.bias.grad--+
  //   8 |      fc = loss = fc.grad----+            one region, taken over in place
  //   7 | labels-------------+ +fc.weight.grad+
  //   6 | input-----------------------+
  //   5 | iteration---------------------------+
  // 0-4 | parameters, momentum, metrics
  Graph net({.name = "mlp", .batch = 2});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {net.Input({1, 2, 2})}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  DefaultCatalog catalog;
  const PlanResult result =
      MakePlan(program, {.placement = PlacementMethod::kFirstFit}, H200(), catalog).value();
  std::string text = "\n";
  for (const Action& action : result.plan.actions) {
    if (const auto* alloc = std::get_if<AllocAction>(&action)) {
      absl::StrAppend(&text, "alloc ", result.plan.tensors[alloc->tensor.index()].name, " ",
                      alloc->region.offset / kBlockBytes, "+", alloc->region.bytes / kBlockBytes,
                      "\n");
    } else if (const auto* free = std::get_if<FreeAction>(&action)) {
      absl::StrAppend(&text, "free ", result.plan.tensors[free->tensor.index()].name, "\n");
    } else if (const auto* compute = std::get_if<ComputeAction>(&action)) {
      absl::StrAppend(&text, program.StepName(program.steps[compute->step.index()]), "\n");
    }
  }
  CHECK(text == R"(
alloc fc.weight 0+1
alloc fc.weight.momentum 1+1
alloc fc.bias 2+1
alloc fc.bias.momentum 3+1
alloc loss.metrics 4+1
alloc iteration 5+1
alloc input 6+1
alloc labels 7+1
alloc fc 8+1
fc forward
alloc loss 8+1
loss forward
free fc
alloc fc.grad 8+1
loss backward_data
free labels
free loss
alloc fc.weight.grad 7+1
alloc fc.bias.grad 9+1
fc backward_params
free input
free fc.grad
fc update
free iteration
free fc.weight.grad
free fc.bias.grad
)");
  CHECK(result.plan.incoming_batch == Region{10 * kBlockBytes, 3 * kBlockBytes});
  CHECK(result.plan.peak_bytes == 13 * kBlockBytes);
  CHECK(result.stats.in_place_tensors == 2);
  CHECK(Verify(result.plan).ok());
}

TEST_CASE("unknown policies are refused with those there are") {
  const Program program = BuildProgram(testing::RandomGraph(1), {}).value();
  DefaultCatalog catalog;
  const auto policy = MakePlan(program, {.policy = "nonsense"}, H200(), catalog).status();
  CHECK(policy.code() == absl::StatusCode::kNotFound);
  CHECK(std::string(policy.message()) ==
        "unknown policy 'nonsense'; known: keep-all liveness offload "
        "tensor-cache recompute-speed recompute-memory cost-aware superneurons vdnn-all vdnn-conv "
        "modnn chen auto");
}

TEST_CASE("a budget of one byte names the step that binds, what it needs and the smallest budget") {
  const Program program = BuildProgram(testing::RandomGraph(1), {}).value();
  DefaultCatalog catalog;
  const PlanResult unlimited = *MakePlan(program, {}, H200(), catalog);
  const int64_t minimum = unlimited.stats.minimum_budget_bytes;
  const std::vector<StepMemory> memory = MemoryPerStep(unlimited.plan);
  const auto busiest = std::max_element(
      memory.begin(), memory.end(),
      [](const StepMemory& a, const StepMemory& b) { return a.live_bytes < b.live_bytes; });
  for (const int64_t budget : {int64_t{1}, int64_t{0}, int64_t{-1}}) {
    const absl::Status refused =
        MakePlan(program, {.budget_bytes = budget, .policy = "liveness"}, H200(), catalog).status();
    CHECK(refused.code() == absl::StatusCode::kResourceExhausted);
    const std::string message(refused.message());
    CHECK(message.find(absl::StrCat("the smallest feasible budget is ", minimum)) !=
          std::string::npos);
    CHECK(message.find(absl::StrCat("step ", busiest->step.value + 1, " (")) != std::string::npos);
    const int64_t needed = busiest->live_bytes - IncomingBytes(unlimited.plan);
    CHECK(message.find(absl::StrCat(") needs ", needed, " bytes")) != std::string::npos);
  }
}

TEST_CASE("a planner plans by its options, in the budget of the request") {
  const Program program = BuildProgram(testing::RandomGraph(1), {}).value();
  DefaultCatalog catalog;
  const PlannerOptions options = {.budget_bytes = 64 * kMiB, .policy = "superneurons"};
  const std::shared_ptr<const Planner> planner = PlannerFor(options);
  CHECK(planner->budget_bytes() == 64 * kMiB);
  const int64_t least = planner->MinimumBudget(program, {}, H200(), catalog).value();
  CHECK(least == MinimumBudget(program, options, H200(), catalog).value());
  const PlanResult tight = planner->Plan(program, {.budget_bytes = least}, H200(), catalog).value();
  CHECK(
      tight.plan ==
      MakePlan(program, {.budget_bytes = least, .policy = "superneurons"}, H200(), catalog)->plan);
  CHECK(tight.stats.minimum_budget_bytes == least);
}

TEST_CASE("a planner is strict where its options or the request are") {
  const Program program = BuildProgram(testing::RandomGraph(9, {.image = 16}), {}).value();
  testing::WorkspaceCatalog catalog;
  // Strict, a tight budget does not make do with engines of less workspace.
  const auto least = [&](bool options, bool request) {
    return PlannerFor({.strict = options})
        ->MinimumBudget(program, {.strict = request}, H200(), catalog)
        .value();
  };
  CHECK(least(false, false) < least(true, false));
  CHECK(least(false, true) == least(true, false));
  CHECK(least(true, true) == least(true, false));
  const PlanRequest request = {.budget_bytes = least(true, false), .strict = true};
  CHECK(PlannerFor({})->Plan(program, request, H200(), catalog)->plan ==
        MakePlan(program, {.budget_bytes = request.budget_bytes, .strict = true}, H200(), catalog)
            ->plan);
}

TEST_CASE("a sum of a tensor with itself is not computed in place") {
  Graph net({.name = "twice", .batch = 2});
  const std::string x = net.Add("conv", Convolution{.out_channels = 2}, {net.Input({1, 4, 4})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 3}, {net.Add("sum", Add{}, {x, x, x})}),
           SoftmaxCrossEntropy{});
  const Program program = BuildProgram(net, {}).value();
  const ComputeSequence runs = ProgramOrder(program);
  const std::vector<Lifetime> lives = Lifetimes(program, runs);
  const Replacements replaces = ProveInPlace(program, runs, lives);
  for (size_t i = 0; i < lives.size(); ++i) {
    if (program.tensor(lives[i].tensor).name == "sum") CHECK(!replaces[i].has_value());
  }
}

TEST_CASE("a larger budget buys larger workspaces, the smallest one the smallest") {
  const Program program = BuildProgram(testing::RandomGraph(9, {.image = 16}), {}).value();
  testing::WorkspaceCatalog catalog;
  const auto workspaces = [](const Plan& plan) {
    int64_t bytes = 0;
    for (const StepMemory& memory : MemoryPerStep(plan)) bytes += memory.workspace_bytes;
    return bytes;
  };
  for (const PlacementMethod placement : kPlacementMethods) {
    CAPTURE(std::string(Name(placement)));
    PlannerOptions options = {.policy = "liveness", .placement = placement};
    const PlanResult roomy = MakePlan(program, options, H200(), catalog).value();
    options.budget_bytes = roomy.stats.minimum_budget_bytes;
    const PlanResult tight = MakePlan(program, options, H200(), catalog).value();
    CHECK(workspaces(tight.plan) < workspaces(roomy.plan));
    for (const Action& action : roomy.plan.actions) {
      const auto* compute = std::get_if<ComputeAction>(&action);
      if (compute != nullptr && !compute->engines.empty())
        CHECK(compute->engines[0].engine == "fast");
    }
    CHECK(Verify(tight.plan).ok());
    CHECK(Verify(roomy.plan).ok());
  }
}

TEST_CASE("strict mode runs the same engines under every budget") {
  const Program program = BuildProgram(testing::RandomGraph(9, {.image = 16}), {}).value();
  testing::WorkspaceCatalog catalog;
  const auto engines = [](const Plan& plan) {
    std::vector<std::string> names;
    for (const StepMemory& memory : MemoryPerStep(plan)) names.push_back(memory.engine);
    return names;
  };
  PlannerOptions options = {.policy = "liveness", .strict = true};
  const PlanResult roomy = MakePlan(program, options, H200(), catalog).value();
  options.budget_bytes = roomy.stats.minimum_budget_bytes;
  const PlanResult tight = MakePlan(program, options, H200(), catalog).value();
  CHECK(engines(roomy.plan) == engines(tight.plan));
}

TEST_CASE("strict mode needs no more than its workspace beside the smallest budget") {
  const Program program =
      BuildProgram(nets::Build("densenet121", {.batch = 64}).value(), {}).value();
  testing::WorkspaceCatalog catalog;
  for (const Policy& policy : Policies()) {
    CAPTURE(policy.name);
    PlannerOptions options = {.policy = std::string(policy.name)};
    const int64_t minimum = MinimumBudget(program, options, H200(), catalog).value();
    options.strict = true;
    const int64_t strict_minimum = MinimumBudget(program, options, H200(), catalog).value();
    CHECK(strict_minimum <= minimum + kStrictWorkspaceBytes);
  }
}

// Copies that reuse each other's places in a pool wait for each other.
TEST_CASE("the predicted time contains the waits of the pools") {
  DefaultCatalog catalog;
  DeviceDescription device = H200();
  device.copy_bandwidth /= 20;  // small kernels are mostly launches: copies take longer than those
  int waiting = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(seed, {.batch = 16, .image = 16, .max_channels = 32});
    const Program program = BuildProgram(graph, {}).value();
    PlannerOptions options = {.policy = "vdnn-all"};
    options.budget_bytes = MinimumBudget(program, options, device, catalog).value();
    const PlanResult result = MakePlan(program, options, device, catalog).value();
    Plan apart = result.plan;
    std::erase_if(apart.actions,
                  [](const Action& action) { return std::holds_alternative<WaitAction>(action); });
    LayOutApart(apart);
    apart.actions = WithWaits(apart);
    const double apart_ms = PredictTimeline(apart, result.costs).total_us / 1e3;
    if (apart.host_pool_bytes == result.plan.host_pool_bytes)
      CHECK(apart_ms == doctest::Approx(result.plan.predicted_ms));
    if (apart_ms < 0.999 * result.plan.predicted_ms) ++waiting;
  }
  CHECK(waiting > 0);
}

TEST_CASE("persistent tensors lie in the same place in every plan of a network") {
  const Graph graph = testing::RandomGraph(4);
  DefaultCatalog catalog;
  std::vector<std::vector<AllocAction>> places;
  for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
    const Program program = BuildProgram(graph, {.mode = mode}).value();
    for (const PlacementMethod placement : kPlacementMethods) {
      for (const char* policy : {"keep-all", "liveness", "cost-aware"}) {
        const Plan plan =
            MakePlan(program, {.policy = policy, .placement = placement}, H200(), catalog)->plan;
        places.emplace_back();
        for (const Action& action : plan.actions) {
          const auto* alloc = std::get_if<AllocAction>(&action);
          if (alloc == nullptr || !IsPersistent(program.tensor(alloc->tensor).role)) continue;
          places.back().push_back(*alloc);
        }
      }
    }
  }
  for (const auto& place : places) CHECK(place == places.front());
}

}  // namespace
}  // namespace neap
