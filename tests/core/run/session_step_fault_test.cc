// Steps, evaluations and loads of checkpoints that fail midway: whether they can be repeated, and
// that training goes on from a checkpoint with the bits of an undisturbed run.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/run/session.h"
#include "tests/faulty_device.h"
#include "tests/forwarding_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// Its kernels of one kind of step fail.
class FailingKernels final : public ForwardingDevice, public Backend {
 public:
  using ForwardingDevice::ForwardingDevice;
  Phase failing = Phase::kForward;

  Backend& backend() override { return *this; }
  std::string Versions() const override { return "failing"; }
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    return ForwardingDevice::backend().Engines(signature);
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override {
    if (signature.phase == failing && signature.layer.type() == "convolution")
      return std::make_unique<Failing>();
    return ForwardingDevice::backend().MakeKernel(signature, engine);
  }

 private:
  struct Failing final : Kernel {
    absl::Status Run(const KernelArgs& /*args*/) override {
      return absl::InternalError("an illegal address");
    }
  };
};

}  // namespace

TEST_CASE("an update that fails leaves a session that a file makes usable again") {
  const auto cpu = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("state.safetensors");
  const TrainingOptions summing = {.accumulate = 2};
  Session steady = MakeSession(*cpu, {}, summing);
  const auto step = [](Session& session) -> absl::Status {
    for (uint64_t seed : {1, 2}) RETURN_IF_ERROR(session.Accumulate(MakeBatch(seed)).status());
    return session.Update().status();
  };
  for (int i = 0; i < 2; ++i) REQUIRE(step(steady).ok());
  const PlannerOptions moving = {.policy = "vdnn-all"};
  int failures = 0;
  for (int k = 1;; ++k) {
    CAPTURE(k);
    FaultyDevice device(*cpu);
    Session session = MakeSession(device, moving, summing);
    REQUIRE(step(session).ok());
    REQUIRE(session.Save(path).ok());
    device.FailCopies(k, 1);
    const absl::Status failed = step(session);
    if (device.copy_calls() < k) break;
    CHECK(!failed.ok());
    ++failures;
    device.FailCopies(0, 0);
    REQUIRE(session.Load(path).ok());
    REQUIRE(step(session).ok());
    for (const char* name : {"conv1.weight", "fc.weight", "fc.weight.momentum", "bn1.weight"})
      CHECK(SameBits(*steady.Values(name), *session.Values(name)));
  }
  CHECK(failures > 10);
}

TEST_CASE("a step whose batch does not arrive can be repeated; any other failure needs a Load()") {
  const auto cpu = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("checkpoint.safetensors");
  const PlannerOptions options = Tight(*cpu);
  Session steady = MakeSession(*cpu, options);
  Train(steady, 5);
  int repeated = 0;
  int loaded = 0;
  for (int k = 1;; ++k) {
    CAPTURE(k);
    FaultyDevice device(*cpu);
    Session session = MakeSession(device, options);
    Train(session, 2);
    REQUIRE(session.Save(path).ok());
    Train(session, 1);
    device.FailCopies(k, 1);
    const absl::Status failed = session.TrainStep(MakeBatch(3)).status();
    if (device.copy_calls() < k) break;
    CHECK(failed.code() == absl::StatusCode::kInternal);
    CHECK(session.step() == 3);
    const absl::Status again = session.TrainStep(MakeBatch(3)).status();
    if (again.ok()) {
      ++repeated;
      Train(session, 1);
    } else {
      ++loaded;
      CHECK(again.code() == absl::StatusCode::kFailedPrecondition);
      CHECK(std::string(again.message()).find("copy failed by the test") != std::string::npos);
      CHECK(session.Save(path).code() ==
            absl::StatusCode::kFailedPrecondition);  // the valid file is not overwritten
      CHECK(session.Evaluate(MakeBatch(3)).status().code() ==
            absl::StatusCode::kFailedPrecondition);
      CHECK(session.SetTrainingGraph(SmallNet()).code() == absl::StatusCode::kFailedPrecondition);
      REQUIRE(session.Load(path).ok());
      CHECK(session.step() == 2);
      Train(session, 3);
    }
    CheckSameState(steady, session);
  }
  CHECK(repeated == 3);  // images, labels, the iteration's scalars
  CHECK(loaded > 2);     // offloads, prefetches, the loss
}

TEST_CASE("a kernel that fails is named by its step") {
  const auto cpu = OpenCpu();
  FailingKernels device(*cpu);
  CHECK(MakeSession(device, {}).TrainStep(MakeBatch(0)).status() ==
        absl::InternalError("conv1 forward: an illegal address"));
  device.failing = Phase::kBackwardParams;
  CHECK(MakeSession(device, {}).TrainStep(MakeBatch(0)).status() ==
        absl::InternalError("conv2 backward_params: an illegal address"));
}

TEST_CASE("a step in flight is finished when the next one fails") {
  const auto cpu = OpenCpu();
  FaultyDevice device(*cpu);
  Session steady = MakeSession(*cpu, {});
  Session session = MakeSession(device, {});
  REQUIRE(session.Begin(MakeBatch(0)).ok());
  device.FailCopies(4, 1);  // after the batch: the loss
  CHECK(session.Begin(MakeBatch(1)).code() == absl::StatusCode::kInternal);
  const absl::StatusOr<StepResult> first = session.Finish();
  REQUIRE(first.ok());
  CHECK(first->loss == Train(steady, 1));
  CHECK(session.Begin(MakeBatch(1)).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("an evaluation that fails leaves the training as it was") {
  const auto cpu = OpenCpu();
  FaultyDevice device(*cpu);
  const PlannerOptions options = Tight(*cpu);
  Session session = MakeSession(device, options);
  Session steady = MakeSession(*cpu, options);
  Train(session, 1);
  Train(steady, 2);
  for (int k = 1;; ++k) {
    device.FailCopies(k, 1);
    const absl::Status status = session.Evaluate(MakeBatch(5)).status();
    if (device.copy_calls() < k) break;
    CHECK(status.code() == absl::StatusCode::kInternal);
  }
  device.FailCopies(0, 0);
  Train(session, 1);
  CheckSameState(steady, session);
}

TEST_CASE("a session with a half-loaded checkpoint does not train until one is loaded") {
  const auto cpu = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("checkpoint.safetensors");
  FaultyDevice device(*cpu);
  Session session = MakeSession(device, {});
  Session steady = MakeSession(*cpu, {});
  Train(session, 1);
  REQUIRE(session.Save(path).ok());
  Train(session, 2);
  Train(steady, 4);
  for (int k = 1;; ++k) {  // refused before anything is overwritten
    device.FailPinned(k, 1);
    const absl::Status status = session.Load(path);
    if (device.pinned_calls() < k) break;
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK(session.step() == 3);
    device.FailPinned(0, 0);
    CHECK(session.Values("fc.weight").ok());
  }
  device.FailPinned(0, 0);
  Train(session, 2);
  for (const int k : {1, 5}) {
    device.FailCopies(k, 1);
    CHECK(session.Load(path).code() == absl::StatusCode::kInternal);
    CHECK(session.TrainStep(MakeBatch(3)).status().code() == absl::StatusCode::kFailedPrecondition);
  }
  device.FailCopies(0, 0);
  REQUIRE(session.Load(path).ok());
  Train(session, 3);
  CheckSameState(steady, session);
}

}  // namespace neap
