// The verifier's interface: the documented example, a program's own plan, and very large
// plans.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "neap/core/program/passes.h"
#include "neap/core/program/results.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/planner.h"
#include "tests/random_graph.h"
#include "tests/small_net.h"
#include "tests/source_tree.h"

namespace neap {
namespace {

// The JSON of docs/plan-format.md's example.
std::string DocumentedExample() {
  std::ifstream file(SourceTree() / "docs/plan-format.md");
  std::stringstream text;
  text << file.rdbuf();
  const size_t begin = text.str().find("```json\n");
  REQUIRE(begin != std::string::npos);
  return text.str().substr(begin + 8, text.str().find("```", begin + 8) - begin - 8);
}

TEST_CASE("the example in docs/plan-format.md is a valid plan") {
  const absl::StatusOr<Plan> plan = Plan::FromJson(DocumentedExample());
  REQUIRE_MESSAGE(plan.ok(), plan.status().message());
  CHECK(Verify(*plan).message() == "");
  const absl::StatusOr<Plan> again = Plan::FromJson(plan->ToJson());
  REQUIRE(again.ok());
  CHECK(*again == *plan);
}

TEST_CASE("the example in docs/plan-format.md needs every one of its waits") {
  const Plan plan = Plan::FromJson(DocumentedExample()).value();
  int waits = 0;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* wait = std::get_if<WaitAction>(&plan.actions[i]);
    if (wait == nullptr) continue;
    ++waits;
    Plan broken = plan;
    std::get<WaitAction>(broken.actions[i]).on = 3;  // what the first one waits for
    if (wait->on == 3) std::get<WaitAction>(broken.actions[i]).stream = Stream::kH2d;
    CHECK(Verify(broken).message().find("plan fault [race]") == 0);
  }
  CHECK(waits == 6);
}

// An evaluation's predictions are read at the end of an iteration, so they must last until then.
TEST_CASE("an inference plan that overwrites the predictions or their logits is refused") {
  const auto device = OpenCpu();
  const Program program =
      Lower(SmallNet(), {.mode = Mode::kInference}, device->description()).value();
  const Plan plan =
      PlannerFor({})->Plan(program, {}, device->description(), device->backend()).value().plan;
  REQUIRE(MatchesProgram(plan, program).ok());
  const auto refusal = [&](const Action& last) {
    Plan changed = plan;
    changed.actions.push_back(last);
    return std::string(MatchesProgram(changed, program).message());
  };
  for (const TensorId result : KeptResults(program)) {
    Region place;
    for (const Action& action : plan.actions) {
      const auto* const alloc = std::get_if<AllocAction>(&action);
      if (alloc != nullptr && alloc->tensor == result) place = alloc->region;
    }
    const std::string fault = "plan fault [wrong-program]: the plan: the result '" +
                              program.tensor(result).name +
                              "' is overwritten before the iteration has ended";
    CHECK(refusal(AllocAction{TensorId(0), place}) == fault);
    CHECK(refusal(AllocAction{result, place}) == fault);
    CHECK(refusal(ComputeAction{.step = StepId(0), .workspace = place}) == fault);
    CHECK(refusal(AllocAction{TensorId(0), {place.end(), kBlockBytes}}) == "");
  }
}

// An output may be on the host meanwhile, but not in the end.
TEST_CASE("a training plan that does not bring an output back is refused") {
  const auto device = OpenCpu();
  int moved = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const int axes = 1 + static_cast<int>(seed % 3);
    const Graph graph =
        testing::RandomGraph(seed, {.axes = axes, .image = axes == 3 ? 4 : 8, .ports = true});
    const Program program = Lower(graph, {}, device->description()).value();
    const Plan plan = PlannerFor({.policy = "recompute-memory"})
                          ->Plan(program, {}, device->description(), device->backend())
                          .value()
                          .plan;
    CHECK(MatchesProgram(plan, program).ok());
    for (const TensorId result : KeptResults(program)) {
      Plan changed = plan;
      const size_t removed = std::erase_if(changed.actions, [&](const Action& action) {
        const auto* const prefetch = std::get_if<PrefetchAction>(&action);
        return prefetch != nullptr && prefetch->tensor == result;
      });
      if (removed == 0) continue;
      ++moved;
      CHECK(std::string(MatchesProgram(changed, program).message()).find("is overwritten") !=
            std::string::npos);
    }
  }
  CHECK(moved > 0);
}

struct TestLayer {
  static constexpr std::string_view kType = "test";
  absl::StatusOr<LayerSpec> Specify(const LayerContext&) const {
    return absl::UnimplementedError("only a name");
  }
  friend bool operator==(const TestLayer&, const TestLayer&) = default;
};

Program SmallProgram() {
  Program program;
  program.net = {.name = "small", .batch = 2};
  program.layers.push_back({"fc", TestLayer{}});
  const auto tensor = [&](std::string name, Role role) {
    program.tensors.push_back({.id = TensorId(program.tensors.size()),
                               .name = std::move(name),
                               .role = role,
                               .spec = {.shape = Shape{2, 8}}});
  };
  tensor("fc.weight", Role::kParam);
  tensor("x", Role::kInput);
  tensor("fc", Role::kActivation);
  program.steps.push_back({.id = StepId(0),
                           .layer = LayerId(0),
                           .reads = {{TensorId(1), {}}, {TensorId(0), {}}},
                           .writes = {{TensorId(2), {}}}});
  program.steps.push_back({.id = StepId(1),
                           .layer = LayerId(0),
                           .phase = Phase::kUpdate,
                           .reads = {{TensorId(2), {}}},
                           .accumulates = {{TensorId(0), {}}}});
  return program;
}

Plan PlanOfSmallProgram() {
  Plan plan = {.net = "small", .batch = 2};
  plan.tensors = {{TensorId(0), "fc.weight", Role::kParam, Shape{2, 8}, DType::kFp32, 64},
                  {TensorId(1), "x", Role::kInput, Shape{2, 8}, DType::kFp32, 64},
                  {TensorId(2), "fc", Role::kActivation, Shape{2, 8}, DType::kFp32, 64}};
  plan.steps = {{StepId(0),
                 "fc",
                 "test",
                 Phase::kForward,
                 {TensorId(1), TensorId(0)},
                 {TensorId(2)},
                 {},
                 {},
                 {}},
                {StepId(1), "fc", "sgd", Phase::kUpdate, {TensorId(2)}, {}, {TensorId(0)}, {}, {}}};
  return plan;
}

TEST_CASE("a plan matches only the program that it was made for") {
  const Program program = SmallProgram();
  CHECK(MatchesProgram(PlanOfSmallProgram(), program).message() == "");
  const auto message = [&](const std::function<void(Plan&)>& change) {
    Plan plan = PlanOfSmallProgram();
    change(plan);
    return std::string(MatchesProgram(plan, program).message());
  };
  CHECK(message([](Plan& p) { p.batch = 4; }) ==
        "plan fault [wrong-program]: the plan: its batch is 4, but the program's is 2");
  CHECK(message([](Plan& p) { p.tensors[1].name = "y"; }) ==
        "plan fault [wrong-program]: the plan: its tensor 1, 'y', is not the program's, 'x'");
  CHECK(message([](Plan& p) { p.tensors[2].shape = Shape{16}; }) ==
        "plan fault [wrong-program]: the plan: its tensor 2, 'fc', is activation 16 fp32, but "
        "the program's is activation 2x8 fp32");
  CHECK(message([](Plan& p) { std::swap(p.steps[0].reads[0], p.steps[0].reads[1]); }) ==
        "plan fault [wrong-program]: the plan: its step 0, 'fc forward', is not the program's, 'fc "
        "forward'");
  for (const std::function<void(Plan&)>& change : std::vector<std::function<void(Plan&)>>{
           [](Plan& p) { p.layout = Layout::kChannelsLast; }, [](Plan& p) { p.tensors.pop_back(); },
           [](Plan& p) { p.tensors[2].role = Role::kSaved; },
           [](Plan& p) { p.tensors[2].shape = Shape{16}; },
           [](Plan& p) { p.tensors[2].dtype = DType::kInt32; },
           [](Plan& p) { p.tensors[0].is_external = true; },
           [](Plan& p) { p.tensors[0].host_offset = 0; }, [](Plan& p) { p.steps[1].layer = "fc2"; },
           [](Plan& p) { p.steps[1].type = "adam"; },
           [](Plan& p) { p.steps[1].phase = Phase::kForward; },
           [](Plan& p) { p.steps[1].accumulates.clear(); },
           [](Plan& p) { p.steps[0].writes.push_back(TensorId(1)); },
           [](Plan& p) { p.steps[0].rerun_reads = {TensorId(1)}; },
           [](Plan& p) {
             p.steps[0].in_place = {{TensorId(2), TensorId(1)}};
           }}) {
    CHECK(message(change).find("plan fault [wrong-program]") == 0);
  }
}

// A chain: step i reads tensor i and writes tensor i + 1; `live` neighbours are kept, each made at
// its own place. With `transfers`, every tensor is also offloaded.
Plan LongPlan(int steps, int live, bool transfers) {
  Plan plan = {.batch = 1, .budget_bytes = live * kBlockBytes, .arena_bytes = live * kBlockBytes};
  const auto add_tensor = [&](int i) {
    plan.tensors.push_back({TensorId(i), "t", i == 0 ? Role::kInput : Role::kGradient, Shape{256},
                            DType::kFp32, 1024});
    plan.actions.emplace_back(AllocAction{TensorId(i), {i % live * kBlockBytes, kBlockBytes}});
  };
  add_tensor(0);
  std::vector<int64_t> left;  // the offload of each tensor
  for (int i = 0; i < steps; ++i) {
    if (transfers && i + 1 >= live)
      plan.actions.emplace_back(
          WaitAction{Stream::kCompute, left[static_cast<size_t>(i + 1 - live)]});
    add_tensor(i + 1);
    plan.steps.push_back(
        {StepId(i), "l", "test", Phase::kForward, {TensorId(i)}, {TensorId(i + 1)}, {}, {}, {}});
    plan.actions.emplace_back(ComputeAction{StepId(i)});
    if (transfers) {
      plan.actions.emplace_back(
          WaitAction{Stream::kD2h, static_cast<int64_t>(plan.actions.size()) - 1});
      left.push_back(static_cast<int64_t>(plan.actions.size()));
      plan.actions.emplace_back(OffloadAction{TensorId(i), Pool::kHost, i * kBlockBytes});
    }
    if (i + 2 >= live) plan.actions.emplace_back(FreeAction{TensorId(i + 2 - live)});
  }
  for (int i = std::max(0, steps + 2 - live); i <= steps; ++i) {
    plan.actions.emplace_back(FreeAction{TensorId(i)});
  }
  plan.peak_bytes = plan.arena_bytes;
  plan.peak_activation_bytes = live * 1024;
  plan.host_peak_bytes = plan.host_pool_bytes = transfers ? int64_t{steps} * 1024 : 0;
  return plan;
}

TEST_CASE("plans with hundreds of thousands of actions are verified, with and without transfers") {
  for (const bool transfers : {false, true}) {
    const Plan plan = LongPlan(100'000, 5'000, transfers);
    const auto start = std::chrono::steady_clock::now();
    CHECK(Verify(plan).message() == "");
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    MESSAGE(plan.actions.size(), " actions verified in ", elapsed.count(), " ms");
  }
}

}  // namespace
}  // namespace neap
