#include "neap/memory/policies/modnn_sub_batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "neap/nets/registry.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

bool IsOfWeights(const Tensor& tensor) {
  return IsPersistent(tensor.role) || tensor.role == Role::kParamGrad;
}

std::set<TensorId> OperandsOf(const Step& step) {
  std::set<TensorId> operands;
  for (const std::vector<Use>* uses : {&step.reads, &step.writes, &step.accumulates}) {
    for (const Use& use : *uses) operands.insert(use.tensor);
  }
  return operands;
}

std::vector<const Step*> TasksOf(const Program& program) {
  std::vector<const Step*> tasks;
  for (const Step& step : program.steps) {
    if (IsOfLayer(step.phase)) tasks.push_back(&step);
  }
  return tasks;
}

int64_t WeightBytesOf(const Program& program) {
  int64_t bytes = 0;
  for (const Tensor& tensor : program.tensors)
    bytes += IsOfWeights(tensor) ? tensor.spec.size_bytes() : 0;
  return bytes;
}

// Equation 8 as it stands: every window of the tasks by itself, for the program's own batch.
int64_t EightOf(const Program& program, const std::vector<int64_t>& workspaces) {
  const std::vector<const Step*> tasks = TasksOf(program);
  const auto length =
      static_cast<size_t>(std::max(1.0, std::round(0.15 * static_cast<double>(tasks.size()))));
  int64_t most = 0;
  for (size_t begin = 0; begin + length <= tasks.size(); ++begin) {
    std::set<TensorId> used;
    int64_t bytes = 0, workspace = 0;
    for (size_t i = begin; i < begin + length; ++i) {
      for (const TensorId operand : OperandsOf(*tasks[i])) used.insert(operand);
      workspace = std::max(workspace, workspaces[tasks[i]->id.index()]);
    }
    for (const TensorId tensor : used) {
      if (!IsOfWeights(program.tensor(tensor))) bytes += program.tensor(tensor).spec.size_bytes();
    }
    most = std::max(most, bytes + workspace);
  }
  return most + WeightBytesOf(program);
}

// Equation 7, for the program's own batch.
int64_t SevenOf(const Program& program) {
  int64_t most = 0;
  for (const Step* task : TasksOf(program)) {
    int64_t bytes = 0;
    for (const TensorId operand : OperandsOf(*task)) {
      if (!IsOfWeights(program.tensor(operand))) bytes += program.tensor(operand).spec.size_bytes();
    }
    most = std::max(most, bytes);
  }
  return most + WeightBytesOf(program);
}

TEST_CASE("random networks: equations 7 and 8 are the sums over their tasks") {
  for (uint32_t seed = 0; seed < testing::RandomSeeds(50); ++seed) {
    CAPTURE(seed);
    const Program program = BuildProgram(testing::RandomGraph(seed, {.batch = 4}), {}).value();
    std::vector<int64_t> workspaces(program.steps.size());
    for (size_t i = 0; i < workspaces.size(); ++i)
      workspaces[i] = static_cast<int64_t>(i * 7919 % 5000);
    const ModnnMemory memory = ModnnMemoryOf(program, workspaces);
    CHECK(memory.SelectionBytes(4) == EightOf(program, workspaces));
    CHECK(memory.LeastBytes(4) == SevenOf(program));
    CHECK(memory.LeastBytesWithoutWeights(4) <= memory.LeastBytes(4));
  }
}

TEST_CASE("AlexNet's equations grow with the sub-batch by the bytes of its images") {
  const Program program = BuildProgram(nets::Build("alexnet", {.batch = 8}).value(), {}).value();
  const ModnnMemory memory = ModnnMemoryOf(program, WithoutWorkspaces(program));
  const Program half = BuildProgram(nets::Build("alexnet", {.batch = 4}).value(), {}).value();
  // Apart from the few scalars of an iteration.
  CHECK(std::abs(memory.SelectionBytes(4) - EightOf(half, WithoutWorkspaces(half))) < 256);
  CHECK(std::abs(memory.LeastBytes(4) - SevenOf(half)) < 256);
}

TEST_CASE("a sub-batch is rounded down to a multiple of 64, or to a power of two below that") {
  const std::pair<int64_t, int64_t> rounded[] = {{1, 1},   {2, 2},   {3, 2},    {31, 16},
                                                 {33, 32}, {64, 64}, {127, 64}, {200, 192}};
  for (const auto& [images, regular] : rounded) CHECK(RegularSubBatch(images) == regular);
}

// A network of one task, with a workspace that depends on the sub-batch at which it was profiled.
ModnnMemory OneTask(double image_bytes, int64_t workspace_bytes) {
  ModnnMemory memory = {.weight_bytes = 100};
  memory.windows = {{.image_bytes = image_bytes, .workspace_bytes = workspace_bytes}};
  return memory;
}

TEST_CASE("the largest sub-batch within the budget is selected, again until it stays the same") {
  const auto select = [](int64_t batch, int64_t budget, auto workspace_at) {
    return SelectSubBatch(batch, budget,
                          [&](int64_t images) -> absl::StatusOr<ModnnMemory> {
                            return OneTask(10, workspace_at(images));
                          })
        .value();
  };
  const auto none = [](int64_t) { return int64_t{0}; };
  CHECK(select(256, 100 + 2560, none).images == 256);
  CHECK(select(256, 100 + 2559, none).images == 192);
  CHECK(select(256, 100 + 330, none).images == 32);
  CHECK(select(256, 99, none).images == 1);
  CHECK(select(256, 100 + 2560, none).profiles == 1);
  CHECK(select(256, 100 + 2559, none).profiles == 2);
  // Profiled at 256 images the workspace leaves room for 64; at 64 it is small, so 128 fit, and at
  // 128 it is that small, too.
  const auto shrinking = [](int64_t images) { return images > 128 ? int64_t{700} : int64_t{10}; };
  const ModnnSubBatch settled = select(256, 100 + 1400, shrinking);
  CHECK(settled.images == 128);
  CHECK(settled.profiles == 3);
  // At 64 there is room for 128, at 128 only for 64: of the two, the smaller one fits.
  const auto swinging = [](int64_t images) { return images > 64 ? int64_t{700} : int64_t{10}; };
  CHECK(select(256, 100 + 1400, swinging).images == 64);
}

TEST_CASE("an error of profiling ends the selection") {
  const auto failed = [](int64_t) -> absl::StatusOr<ModnnMemory> {
    return absl::AbortedError("no");
  };
  CHECK(SelectSubBatch(4, 100, failed).status().message() == "no");
}

}  // namespace
}  // namespace neap
