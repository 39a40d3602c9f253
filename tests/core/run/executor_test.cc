#include "neap/core/run/executor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "neap/core/base/philox.h"
#include "neap/core/run/initialize.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/planner.h"
#include "tests/core/verifier/plan_interpreter.h"
#include "tests/core/verifier/plan_rewrite.h"
#include "tests/guarded_device.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// Sums of branches, so that gradients meet in every way; dropout, so that a recomputation must draw
// the same random numbers again.
Program SmallProgram() {
  Graph net({.name = "small", .batch = 4});
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("bn1", BatchNorm{}, {x});
  const std::string trunk = net.Add("relu1", Relu{}, {x});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {trunk});
  x = net.Add("bn2", BatchNorm{}, {x});
  x = net.Add("relu2", Relu{}, {x});
  x = net.Add("add1", Add{}, {x, trunk});
  const std::string side = net.Add("conv3", Convolution{.out_channels = 8, .kernel = 1}, {trunk});
  x = net.Add("add2", Add{}, {x, side});
  x = net.Add("pool", MaxPool{}, {x});
  x = net.Add("drop", Dropout{.probability = 0.25F}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 4}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  absl::StatusOr<Program> program = BuildProgram(net, {.mode = Mode::kTraining});
  REQUIRE_MESSAGE(program.ok(), program.status().ToString());
  return *std::move(program);
}

Plan PlanWith(const Program& program, Device& device, std::string policy) {
  const PlannerOptions options = {.policy = std::move(policy), .in_place = false, .strict = true};
  absl::StatusOr<PlanResult> planned =
      MakePlan(program, options, device.description(), device.backend());
  REQUIRE_MESSAGE(planned.ok(), planned.status().ToString());
  return std::move(planned->plan);
}

Plan Rewritten(const Program& program, Device& device, const Eviction& eviction, Reuse reuse) {
  Plan plan = Evict(PlanWith(program, device, "liveness"), eviction);
  Place(plan, reuse);
  PlaceCopies(plan, reuse);
  AddWaits(plan);
  RecomputeTotals(plan);
  return plan;
}

TensorFilter OfRoles(std::vector<Role> roles) {
  return [roles = std::move(roles)](const PlanTensor& tensor) {
    return std::find(roles.begin(), roles.end(), tensor.role) != roles.end();
  };
}
TensorFilter Named(std::vector<std::string> names) {
  return [names = std::move(names)](const PlanTensor& tensor) {
    return std::find(names.begin(), names.end(), tensor.name) != names.end();
  };
}

template <typename ActionType>
int64_t Count(const Plan& plan) {
  return std::count_if(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    return std::holds_alternative<ActionType>(action);
  });
}
int64_t CountRecomputed(const Plan& plan) {
  return std::count_if(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    const auto* compute = std::get_if<ComputeAction>(&action);
    return compute != nullptr && compute->recompute;
  });
}

using Values = std::vector<std::byte>;
struct Outcome {
  std::vector<Values> persistent;  // after each iteration; parameters, running statistics, loss
  int64_t measured_peak_bytes = 0;
};

// Executes a plan as a session would, with garbage in the arena at first.
class Trainer {
 public:
  Trainer(const Program& program, const Plan& plan, Device& device)
      : program_(program), plan_(plan), device_(device) {
    REQUIRE_MESSAGE(Verify(plan).ok(), Verify(plan).ToString());
    const absl::Status matches = MatchesProgram(plan, program);
    REQUIRE_MESSAGE(matches.ok(), matches.ToString());
  }

  Outcome Train(uint32_t iterations) {
    GuardedDevice guarded(device_);
    absl::StatusOr<Buffer> arena = guarded.Allocate(MemoryKind::kDevice, plan_.arena_bytes);
    REQUIRE(arena.ok());
    absl::StatusOr<Executor> executor = Executor::Create(program_, plan_, guarded, {arena->data()});
    REQUIRE_MESSAGE(executor.ok(), executor.status().ToString());
    const int allocations = guarded.allocations();
    for (const Tensor& tensor : program_.tensors) {
      if (IsPersistent(tensor.role)) Write(*executor, tensor.id, InitialValues(tensor, kSeed));
    }
    Outcome outcome;
    for (uint32_t i = 0; i < iterations; ++i) {
      WriteBatch(*executor, i);
      const absl::Status ran = executor->Run();
      REQUIRE_MESSAGE(ran.ok(), ran.ToString());
      ReadPersistent(*executor, outcome.persistent);
    }
    outcome.measured_peak_bytes = executor->measured_peak_bytes();
    CHECK(guarded.allocations() == allocations);
    CHECK(guarded.GuardsIntact());
    CHECK(guarded.HighestTouchedByte() <= plan_.peak_bytes);
    return outcome;
  }

 private:
  static constexpr uint64_t kSeed = 3;

  template <typename T>
  void Write(const Executor& executor, TensorId id, const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    REQUIRE(bytes == plan_.tensors[id.index()].bytes);
    std::byte* place = executor.Address(id);
    REQUIRE(place != nullptr);
    REQUIRE(device_.Copy(Stream::kCompute, place, values.data(), bytes).ok());
  }

  void WriteBatch(const Executor& executor, uint32_t iteration) {
    std::vector<float> images;
    for (int64_t i = 0; i < program_.tensor(program_.feeds[0].parts.front()).spec.elements(); ++i) {
      const auto position = static_cast<uint64_t>(i);
      images.push_back(
          ToUnitFloat(Philox({.key = kSeed, .stream = iteration, .position = position})[0]));
    }
    Write(executor, program_.feeds[0].parts.front(), images);
    Write(executor, program_.feeds[1].parts.front(), std::vector<int32_t>{0, 1, 2, 3});
    Write(
        executor, program_.iteration,
        std::vector<IterationScalars>{{.learning_rate = 0.05F, .step = iteration, .seed = kSeed}});
  }

  void ReadPersistent(const Executor& executor, std::vector<Values>& into) {
    for (const PlanTensor& tensor : plan_.tensors) {
      if (!IsPersistent(tensor.role)) continue;
      Values& values = into.emplace_back(static_cast<size_t>(tensor.bytes));
      REQUIRE(
          device_.Copy(Stream::kCompute, values.data(), executor.Address(tensor.id), tensor.bytes)
              .ok());
    }
  }

  const Program& program_;
  const Plan& plan_;
  Device& device_;
};

// Two iterations give the bits of the plan that keeps everything, within the bytes of the plan.
void CheckSameTraining(const Program& program, const Plan& plan, Device& device) {
  const Plan keep_all = PlanWith(program, device, "keep-all");
  const Outcome expected = Trainer(program, keep_all, device).Train(2);
  const Outcome found = Trainer(program, plan, device).Train(2);
  CHECK(expected.persistent == found.persistent);
  CHECK(expected.measured_peak_bytes == keep_all.peak_bytes);
  CHECK(found.measured_peak_bytes == plan.peak_bytes);
}

// Whether another tensor reuses the bytes of an offloaded one.
bool ReusesOffloadedBytes(const Plan& plan) {
  std::vector<Region> regions(plan.tensors.size());
  std::vector<std::pair<TensorId, Region>> left;
  for (const Action& action : plan.actions) {
    if (const auto* offload = std::get_if<OffloadAction>(&action))
      left.emplace_back(offload->tensor, regions[offload->tensor.index()]);
    const auto* alloc = std::get_if<AllocAction>(&action);
    if (alloc == nullptr) continue;
    regions[alloc->tensor.index()] = alloc->region;
    for (const auto& [tensor, region] : left) {
      const bool overlaps =
          region.offset < alloc->region.end() && alloc->region.offset < region.end();
      if (overlaps && tensor != alloc->tensor) return true;
    }
  }
  return false;
}

std::string FaultWithoutWaits(Plan plan) {
  plan.actions = WithoutWaits(plan.actions);
  return std::string(Verify(plan).message());
}

const Eviction kOffloadAll = {.offload = OfRoles({Role::kActivation, Role::kSaved, Role::kInput})};

}  // namespace

TEST_CASE("the program of these tests adds gradients in scratch space") {
  const Program program = SmallProgram();
  CHECK(std::any_of(program.steps.begin(), program.steps.end(),
                    [&](const Step& step) { return program.AccumulationScratchBytes(step) > 0; }));
}

TEST_CASE("a plan that keeps everything and one that frees the dead train to the same bits") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  CheckSameTraining(program, PlanWith(program, *device, "liveness"), *device);
}

TEST_CASE(
    "activations that are offloaded and prefetched to other addresses train to the same bits") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  const Eviction activations = {.offload = OfRoles({Role::kActivation})};
  const Plan plan = Rewritten(program, *device, activations, Reuse::kNone);
  CHECK(Count<OffloadAction>(plan) >= 6);
  CHECK(Count<PrefetchAction>(plan) == Count<OffloadAction>(plan));
  CHECK(FaultWithoutWaits(plan).find("plan fault [race]") != std::string::npos);
  CheckSameTraining(program, plan, *device);
}

TEST_CASE("offloaded bytes can be reused after a wait for the copy") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  const Plan apart = Rewritten(program, *device, kOffloadAll, Reuse::kNone);
  const Plan plan = Rewritten(program, *device, kOffloadAll, Reuse::kFirstFit);
  CHECK(plan.host_peak_bytes > 0);
  CHECK(plan.arena_bytes < apart.arena_bytes);
  CHECK(ReusesOffloadedBytes(plan));
  CHECK_FALSE(ReusesOffloadedBytes(apart));
  CHECK(FaultWithoutWaits(plan).find("plan fault [race]") != std::string::npos);
  CheckSameTraining(program, plan, *device);
}

TEST_CASE("recomputed normalised and rectified activations train to the same bits") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  const Eviction eviction = {.drop = Named({"bn1", "relu1", "bn2", "relu2"})};
  for (Reuse reuse : {Reuse::kNone, Reuse::kFirstFit}) {
    const Plan plan = Rewritten(program, *device, eviction, reuse);
    CHECK(CountRecomputed(plan) >= 4);
    CHECK(Count<WaitAction>(plan) == 0);
    CheckSameTraining(program, plan, *device);
  }
}

TEST_CASE("recomputing every activation from the images trains to the same bits") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  const Eviction eviction = {.drop = OfRoles({Role::kActivation})};
  const Plan plan = Rewritten(program, *device, eviction, Reuse::kFirstFit);
  CHECK(CountRecomputed(plan) >= 7);
  CheckSameTraining(program, plan, *device);
}

TEST_CASE("recomputations can read what was prefetched for them") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  const Eviction eviction = {
      .offload = Named({"input", "conv1", "conv2", "bn1.mean", "bn2.invstd"}),
      .drop = OfRoles({Role::kActivation})};
  const Plan plan = Rewritten(program, *device, eviction, Reuse::kFirstFit);
  CHECK(Count<PrefetchAction>(plan) == 5);
  CHECK(CountRecomputed(plan) >= 5);
  CheckSameTraining(program, plan, *device);
}

TEST_CASE("copies at the beginning and end of an iteration are over before another needs them") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  Plan plan = PlanWith(program, *device, "liveness");
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.role == Role::kParam) plan.actions.emplace_back(OffloadAction{tensor.id});
    if (tensor.role == Role::kParam) plan.actions.emplace_back(PrefetchAction{tensor.id});
  }
  const auto first_compute =
      std::find_if(plan.actions.begin(), plan.actions.end(),
                   [](const Action& a) { return std::holds_alternative<ComputeAction>(a); });
  plan.actions.insert(first_compute, OffloadAction{program.feeds[0].parts.front()});
  PlaceCopies(plan, Reuse::kFirstFit);
  AddWaits(plan);
  RecomputeTotals(plan);
  REQUIRE(std::holds_alternative<PrefetchAction>(plan.actions.back()));
  CheckSameTraining(program, plan, *device);
}

TEST_CASE("outputs and input gradients of convolutions in micro-batches train to the same bits") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  Plan plan = PlanWith(program, *device, "liveness");
  int divided = 0;
  for (Action& action : plan.actions) {
    auto* compute = std::get_if<ComputeAction>(&action);
    if (compute == nullptr || compute->engines.empty()) continue;
    const PlanStep& step = plan.steps[compute->step.index()];
    if (step.type != "convolution" || step.phase == Phase::kBackwardParams) continue;
    const std::string engine = compute->engines.front().engine;
    compute->engines = {{engine, 2}, {engine, 1}, {engine, 1}};
    ++divided;
  }
  CHECK(divided == 5);  // conv1 has no input gradient
  REQUIRE(Verify(plan).ok());
  CheckSameTraining(program, plan, *device);
}

// What making an executor in an arena of its own says.
absl::Status CreationOf(const Program& program, const Plan& plan, Device& device) {
  std::vector<std::byte> arena(static_cast<size_t>(plan.arena_bytes));
  return Executor::Create(program, plan, device, {arena.data()}).status();
}

TEST_CASE("micro-batches of a step that cannot be divided are refused") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  Plan plan = PlanWith(program, *device, "liveness");
  for (Action& action : plan.actions) {
    auto* compute = std::get_if<ComputeAction>(&action);
    if (compute != nullptr && plan.steps[compute->step.index()].type == "relu")
      compute->engines = {{"neap", 1}, {"neap", plan.batch - 1}};
  }
  REQUIRE(Verify(plan).ok());
  CHECK(absl::IsInvalidArgument(CreationOf(program, plan, *device)));
}

TEST_CASE("an engine that the library does not have is not found") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  Plan plan = PlanWith(program, *device, "liveness");
  const auto compute = std::find_if(plan.actions.begin(), plan.actions.end(), [](const Action& a) {
    return std::holds_alternative<ComputeAction>(a);
  });
  REQUIRE(compute != plan.actions.end());
  std::get<ComputeAction>(*compute).engines = {{"of-another-version", plan.batch}};
  REQUIRE(Verify(plan).ok());
  const absl::Status status = CreationOf(program, plan, *device);
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(status.message().find("of-another-version") != absl::string_view::npos);
}

TEST_CASE("a workspace smaller than the engine's is refused") {
  const auto device = OpenCpu();
  const Program program = SmallProgram();
  const Plan plan = PlanWith(program, *device, "liveness");
  int tried = 0;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const auto* compute = std::get_if<ComputeAction>(&plan.actions[i]);
    if (compute == nullptr || !compute->workspace.has_value()) continue;
    Plan less = plan;
    std::optional<Region>& workspace = std::get<ComputeAction>(less.actions[i]).workspace;
    workspace->bytes -= kBlockBytes;
    if (workspace->bytes == 0) workspace = std::nullopt;
    RecomputeTotals(less);
    CAPTURE(i);
    REQUIRE(Verify(less).ok());
    const absl::Status status = CreationOf(program, less, *device);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    ++tried;
  }
  CHECK(tried > 0);
}

}  // namespace neap
