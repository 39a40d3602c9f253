// MatchesProgram() on results, against a model that follows one result at a time.
#include "neap/core/program/results.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/verifier/verifier.h"

namespace neap {
namespace {

struct ResultLayer {
  static constexpr std::string_view kType = "result";
  absl::StatusOr<LayerSpec> Specify(const LayerContext&) const {
    return absl::UnimplementedError("only a name");
  }
  friend bool operator==(const ResultLayer&, const ResultLayer&) = default;
};

// A step for each tensor, which writes it and the next one. The first tensor is an input, and the
// first `results` are outputs.
Program ProgramWithResults(int tensors, int results) {
  Program program;
  program.net = {.name = "results", .batch = 1};
  program.layers.push_back({"layer", ResultLayer{}});
  for (int i = 0; i < tensors; ++i) {
    const TensorId id(i);
    program.tensors.push_back({.id = id,
                               .name = absl::StrCat("t", i),
                               .role = i == 0 ? Role::kInput : Role::kActivation,
                               .spec = {.shape = Shape{1, 4}}});
    if (i < results)
      program.outputs.push_back({.name = program.tensors.back().name, .parts = {id}});
    program.steps.push_back({.id = StepId(i),
                             .layer = LayerId(0),
                             .writes = {{id, {}}, {TensorId((i + 1) % tensors), {}}}});
  }
  return program;
}

Plan PlanWithoutActions(const Program& program) {
  Plan plan = {.net = program.net.name, .batch = 1};
  for (const Tensor& tensor : program.tensors) {
    plan.tensors.push_back({tensor.id, tensor.name, tensor.role, tensor.spec.shape,
                            tensor.spec.dtype, tensor.spec.size_bytes()});
  }
  for (const Step& step : program.steps) {
    plan.steps.push_back({.id = step.id, .layer = "layer", .type = "result"});
    for (const Use& write : step.writes) plan.steps.back().writes.push_back(write.tensor);
  }
  return plan;
}

// Whether the result is still there when all actions have run.
bool LastsToTheEnd(const Plan& plan, TensorId result) {
  std::optional<Region> place;
  bool computed = false, on_host = false;
  const auto overlaps = [&place](const Region& region) {
    return place.has_value() && region.offset < place->end() && place->offset < region.end();
  };
  for (const Action& action : plan.actions) {
    if (const auto* const alloc = std::get_if<AllocAction>(&action)) {
      if (alloc->tensor == result) {
        place = alloc->region;
        computed = IsGiven(plan.tensors[result.index()].role);
      } else if (overlaps(alloc->region)) {
        computed = false;
      }
    } else if (const auto* const offload = std::get_if<OffloadAction>(&action)) {
      if (offload->tensor == result) on_host = computed;
    } else if (const auto* const prefetch = std::get_if<PrefetchAction>(&action)) {
      if (prefetch->tensor == result) computed = on_host;
    } else if (const auto* const compute = std::get_if<ComputeAction>(&action)) {
      const std::vector<TensorId> writes = RunWrites(plan, *compute);
      if (std::find(writes.begin(), writes.end(), result) != writes.end()) {
        computed = true;
      } else if (compute->workspace.has_value() && overlaps(*compute->workspace)) {
        computed = false;
      }
    }
  }
  return computed;
}

std::string ExpectedFault(const Plan& plan, const Program& program) {
  for (const TensorId result : KeptResults(program)) {
    if (LastsToTheEnd(plan, result)) continue;
    return absl::StrCat("plan fault [wrong-program]: the plan: the result '",
                        program.tensor(result).name,
                        "' is overwritten before the iteration has ended");
  }
  return "";
}

TEST_CASE("results last to the end of random actions exactly if each of them alone does") {
  constexpr int kTensors = 5, kResults = 3;
  const Program program = ProgramWithResults(kTensors, kResults);
  int kept = 0, refused = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](uint32_t end) { return static_cast<int>(random() % end); };
    const auto region = [&]() -> Region {
      return {below(8) * kBlockBytes, (1 + below(3)) * kBlockBytes};
    };
    Plan plan = PlanWithoutActions(program);
    const int actions = 4 + below(16);
    for (int i = 0; i < actions; ++i) {
      const TensorId tensor(below(kTensors));
      switch (below(6)) {
        case 0:
        case 1:
          plan.actions.emplace_back(AllocAction{tensor, region()});
          break;
        case 2:
          plan.actions.emplace_back(OffloadAction{.tensor = tensor});
          break;
        case 3:
          plan.actions.emplace_back(PrefetchAction{tensor});
          break;
        default:
          plan.actions.emplace_back(ComputeAction{.step = StepId(tensor.value)});
          if (below(3) == 0) std::get<ComputeAction>(plan.actions.back()).workspace = region();
      }
    }
    const std::string fault = ExpectedFault(plan, program);
    ++(fault.empty() ? kept : refused);
    REQUIRE(std::string(MatchesProgram(plan, program).message()) == fault);
  }
  CHECK(kept > 100);
  CHECK(refused > 100);
}

TEST_CASE("ten thousand results are followed at once") {
  constexpr int kResults = 10'000;
  const Program program = ProgramWithResults(kResults, kResults);
  Plan plan = PlanWithoutActions(program);
  const auto place = [](int i) -> Region { return {i * kBlockBytes, kBlockBytes}; };
  for (int i = 0; i < kResults; ++i) plan.actions.emplace_back(AllocAction{TensorId(i), place(i)});
  for (int i = 0; i < kResults; ++i) {
    plan.actions.emplace_back(
        ComputeAction{.step = StepId(i), .workspace = place(kResults + i % 7)});
    plan.actions.emplace_back(OffloadAction{.tensor = TensorId(i)});
    plan.actions.emplace_back(PrefetchAction{TensorId(i)});
  }
  CHECK(MatchesProgram(plan, program).message() == "");
  plan.actions.emplace_back(ComputeAction{.step = StepId(1), .workspace = place(kResults - 1)});
  CHECK(std::string(MatchesProgram(plan, program).message()) ==
        "plan fault [wrong-program]: the plan: the result 't9999' is overwritten before the "
        "iteration has ended");
}

}  // namespace
}  // namespace neap
