// What functions of the program's own throw is a status of the session's calls, and leaves a
// session that says whether its parameters are whole.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/plan/forwarding_planner.h"
#include "neap/core/run/session.h"
#include "neap/core/step/operands.h"
#include "neap/layers/catalog/custom_kernel.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "tests/forwarding_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

using namespace operands;

constexpr absl::StatusCode kBroken = absl::StatusCode::kFailedPrecondition;

enum class Thrower { kNone, kSpecify, kRule, kMake, kWorkspace, kForward, kBackward };

// y = x, by kernels of the test's own.
struct Own {
  static constexpr std::string_view kType = "own";
  Thrower thrower = Thrower::kNone;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    if (thrower == Thrower::kSpecify) throw std::runtime_error("specify");
    LayerSpec spec = {.output = context.inputs[0]};
    spec.steps.push_back({.reads = {X()}, .writes = {Y()}});
    if (context.mode == Mode::kInference) return spec;
    spec.steps.push_back({.phase = Phase::kBackwardData, .reads = {Dy()}, .writes = {Dx()}});
    return spec;
  }
  std::string Parameters() const { return ""; }
  friend bool operator==(const Own&, const Own&) = default;
};

std::optional<Layer> ThrowingRule(const Own& own, const FullyConnected& /*fc*/, int /*input*/) {
  if (own.thrower == Thrower::kRule) throw 42;
  return std::nullopt;
}

Graph Net(Thrower thrower = Thrower::kNone) {
  Graph net({.name = "net", .batch = 4});
  std::string x = net.Add("fc1", FullyConnected{.out_features = 8}, {net.Input({1, 4, 4})});
  x = net.Add("own", Own{thrower}, {x});
  net.Loss(net.Add("fc2", FullyConnected{.out_features = 3}, {x}), SoftmaxCrossEntropy{});
  return net;
}

Batch BatchOf(int64_t step) {
  Batch batch = {.images = std::vector<float>(64), .labels = {0, 1, 2, 0}, .size = 4};
  for (size_t i = 0; i < batch.images.size(); ++i)
    batch.images[i] = static_cast<float>((i * 7 + static_cast<size_t>(step) * 5) % 11) / 11;
  return batch;
}

// Kernels that throw as long as `thrower` says so.
std::unique_ptr<CpuDevice> OpenOwn(const Thrower& thrower) {
  const auto copy = [&thrower](Operand from, Operand to, Thrower here) {
    return [&thrower, from, to, here](const CustomRun& step) -> absl::Status {
      if (thrower == here) throw std::runtime_error("a kernel");
      std::copy_n(step.Get<float>(from), step.Elements(to), step.Get<float>(to));
      return absl::OkStatus();
    };
  };
  const auto workspace = [&thrower](const StepSignature&) -> absl::StatusOr<int64_t> {
    if (thrower == Thrower::kWorkspace) throw std::bad_alloc();
    return 0;
  };
  const auto make = [&thrower, copy](const StepSignature&) -> absl::StatusOr<CustomFunction> {
    if (thrower == Thrower::kMake) throw std::runtime_error("make it");
    return CustomFunction(copy(Dy(), Dx(), Thrower::kBackward));
  };
  return CpuDevice::Open(
             {.kernels = {{.layer_type = "own",
                           .run = copy(X(), Y(), Thrower::kForward),
                           .workspace_bytes = workspace},
                          {.layer_type = "own", .phase = Phase::kBackwardData, .make = make}},
              .rules = {.fusions = {FusionOf<&ThrowingRule>()}}})
      .value();
}

absl::StatusOr<Session> Open(Device& device, Thrower of_layer = Thrower::kNone) {
  return CreateSession(Net(of_layer), device, {}, {});
}

std::vector<std::vector<float>> StateOf(Session& session) {
  std::vector<std::vector<float>> state;
  for (const char* name : {"fc1.weight", "fc1.bias", "fc1.weight.momentum", "fc2.weight"})
    state.push_back(session.Values(name).value());
  return state;
}

TEST_CASE("a kernel that throws in a step leaves a session that only a Load makes usable") {
  const ScratchDirectory scratch;
  const std::string file = scratch.path() + "/saved";
  for (const Thrower failing : {Thrower::kForward, Thrower::kBackward}) {
    Thrower thrower = Thrower::kNone;
    const auto device = OpenOwn(thrower);
    Session session = Open(*device).value();
    Session steady = Open(*device).value();
    for (int step = 0; step < 4; ++step) REQUIRE(steady.TrainStep(BatchOf(step)).ok());
    for (int step = 0; step < 3; ++step) REQUIRE(session.TrainStep(BatchOf(step)).ok());
    REQUIRE(session.Save(file).ok());
    thrower = failing;
    const absl::Status status = session.TrainStep(BatchOf(3)).status();
    CHECK(status.code() == absl::StatusCode::kInternal);
    CHECK(status.message().find("the kernel has thrown: a kernel") != std::string_view::npos);
    CHECK(status.message().find("own") != std::string_view::npos);
    thrower = Thrower::kNone;
    CHECK(session.TrainStep(BatchOf(3)).status().code() == kBroken);
    CHECK(session.Save(file).code() == kBroken);
    CHECK(session.Evaluate(BatchOf(3)).status().code() == kBroken);
    REQUIRE(session.Load(file).ok());
    CHECK(session.step() == 3);
    REQUIRE(session.TrainStep(BatchOf(3)).ok());
    CHECK(StateOf(session) == StateOf(steady));
  }
}

TEST_CASE("a kernel that throws in an evaluation leaves the session as it was") {
  Thrower thrower = Thrower::kNone;
  const auto device = OpenOwn(thrower);
  const ScratchDirectory scratch;
  Session session = Open(*device).value();
  Session steady = Open(*device).value();
  for (int step = 0; step < 4; ++step) REQUIRE(steady.TrainStep(BatchOf(step)).ok());
  for (int step = 0; step < 2; ++step) REQUIRE(session.TrainStep(BatchOf(step)).ok());
  thrower = Thrower::kForward;
  CHECK(session.Evaluate(BatchOf(9)).status().code() == absl::StatusCode::kInternal);
  CHECK(session.Predict(BatchOf(9).images).status().code() == absl::StatusCode::kInternal);
  CHECK(session.Save(scratch.path() + "/saved").ok());
  thrower = Thrower::kNone;
  CHECK(session.Evaluate(BatchOf(9)).ok());
  for (int step = 2; step < 4; ++step) REQUIRE(session.TrainStep(BatchOf(step)).ok());
  CHECK(StateOf(session) == StateOf(steady));
}

TEST_CASE("a layer, or what prepares its kernels, that throws refuses the session") {
  for (const auto& [thrower, code] :
       {std::pair(Thrower::kSpecify, absl::StatusCode::kInvalidArgument),
        std::pair(Thrower::kRule, absl::StatusCode::kInternal)}) {
    const Thrower none = Thrower::kNone;
    const auto device = OpenOwn(none);
    CHECK(Open(*device, thrower).status().code() == code);
  }
  for (const auto& [thrower, code] :
       {std::pair(Thrower::kMake, absl::StatusCode::kInternal),
        std::pair(Thrower::kWorkspace, absl::StatusCode::kResourceExhausted)}) {
    const auto device = OpenOwn(thrower);
    const absl::Status status = Open(*device).status();
    CHECK(status.code() == code);
    CHECK(status.message().find("own") != std::string_view::npos);
  }
}

// Throws when it is asked for another budget than that of the session's beginning.
class ThrowingPlanner final : public ForwardingPlanner {
 public:
  ThrowingPlanner() : ForwardingPlanner(PlannerFor({})) {}
  absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                  const DeviceDescription& device,
                                  EngineCatalog& catalog) const override {
    if (request.budget_bytes != kUnlimited) throw std::runtime_error("no plan");
    return ForwardingPlanner::Plan(program, request, device, catalog);
  }
};

TEST_CASE("a planner that throws, also on the planning thread, refuses the change of the budget") {
  const auto device = OpenCpu();
  Session session =
      Session::Create(SmallNet(), *device, std::make_shared<ThrowingPlanner>()).value();
  Session steady = Session::Create(SmallNet(), *device, PlannerFor({})).value();
  Train(session, 1);
  REQUIRE(session.SetBudgetAsync(kMiB).ok());
  const absl::Status refused = session.AwaitBudget();
  CHECK(refused == absl::InternalError("the planner has thrown: no plan"));
  CHECK(session.SetBudget(kMiB) == refused);
  Train(session, 1);
  Train(steady, 2);
  CheckSameState(steady, session);
}

// A device that throws in the middle of a step.
class ThrowingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  absl::StatusOr<Event> Record(Stream stream) override {
    if (throws) throw std::out_of_range("record");
    return ForwardingDevice::Record(stream);
  }
  bool throws = false;
};

TEST_CASE("a device of one's own that throws fails the step") {
  const auto cpu = OpenCpu();
  ThrowingDevice device(*cpu);
  Session session = MakeSession(device, Tight(device));
  Train(session, 1);
  device.throws = true;
  CHECK(session.TrainStep(MakeBatch(1)).status().code() == absl::StatusCode::kInternal);
  device.throws = false;
}

}  // namespace
}  // namespace neap
