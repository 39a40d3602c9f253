// Failures in the middle of training: which state is left, and that the run continues from it with
// the bits of an undisturbed run.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "tests/faulty_device.h"
#include "tests/forwarding_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr absl::StatusCode kRefused = absl::StatusCode::kResourceExhausted;
constexpr absl::StatusCode kWaiting = absl::StatusCode::kFailedPrecondition;
constexpr int kForGood = 1'000'000;

// The requests to a session between two steps.
struct Request {
  const char* name;
  std::function<absl::Status(Session&)> ask;
};
std::vector<Request> Requests(const std::string& folder) {
  return {{"larger budget", [](Session& s) { return s.SetBudget(kUnlimited); }},
          {"larger budget, planned meanwhile",
           [](Session& s) {
             const absl::Status begun = s.SetBudgetAsync(kUnlimited);
             return begun.ok() ? s.AwaitBudget() : begun;
           }},
          {"same budget", [](Session& s) { return s.SetBudget(s.plan().budget_bytes); }},
          {"save", [folder](Session& s) { return s.Save(folder + "/unused"); }},
          {"values", [](Session& s) { return s.Values("fc.weight").status(); }}};
}

// A session that waits for a budget gets it.
void GoOn(Session& session) {
  const absl::StatusOr<float> loss =
      session.TrainStep(MakeBatch(static_cast<uint64_t>(session.step())));
  if (loss.ok()) return;
  REQUIRE(loss.status().code() == kWaiting);
  CHECK(session.Values("fc.weight").status().code() == kWaiting);
  REQUIRE(session.SetBudget(kUnlimited).ok());
  Train(session, 1);
}

Graph SmallNetWithoutBlock() { return SmallNet(Layout::kChannelsFirst, /*with_block=*/false); }

// The calls that a device refuses: `count` consecutive ones.
struct Fault {
  void (FaultyDevice::*fail)(int first, int count);
  int (FaultyDevice::*calls)() const;
  int count = 1;
  absl::StatusCode code;
};

// A request in the middle of training fails at its k-th call. False if it makes fewer.
bool FailsAt(int k, const Fault& fault, const Request& request, Device& cpu,
             const PlannerOptions& options, Session& steady) {
  CAPTURE(k);
  FaultyDevice device(cpu);
  Session session = MakeSession(device, options);
  Train(session, 2);
  (device.*fault.fail)(k, fault.count);
  const absl::Status status = request.ask(session);
  if ((device.*fault.calls)() < k) return false;
  CHECK(status.code() == fault.code);
  (device.*fault.fail)(0, 0);
  GoOn(session);
  CHECK(request.ask(session).ok());
  Train(session, 1);
  CheckSameState(steady, session);
  return true;
}

// Whichever call of whichever request fails, training goes on with the bits of a run that nothing
// has disturbed.
void CheckCostsNoBit(const Fault& fault) {
  const auto cpu = OpenCpu();
  const ScratchDirectory directory;
  const PlannerOptions options = Tight(*cpu);
  Session steady = MakeSession(*cpu, options);
  Train(steady, 4);
  for (const Request& request : Requests(directory.path())) {
    CAPTURE(request.name);
    int k = 1;
    while (FailsAt(k, fault, request, *cpu, options, steady)) ++k;
  }
}

// A graph for which the arena must grow: the device fails at the k-th call. False if there are
// fewer.
bool GrowingFailsAt(int k, const Fault& fault, Device& cpu, Session& steady) {
  CAPTURE(k);
  FaultyDevice device(cpu);
  Session session = MakeSession(device, {.policy = "liveness"});
  const int64_t minimum = session.planning().minimum_budget_bytes;
  Train(session, 1);
  REQUIRE(session.SetTrainingGraph(SmallNetWithoutBlock()).ok());
  REQUIRE(session.SetBudget(session.planning().minimum_budget_bytes).ok());
  REQUIRE(session.SetBudget(minimum).ok());
  Train(session, 1);
  const int64_t small_arena = session.memory().arena_bytes;
  (device.*fault.fail)(k, fault.count);
  const absl::Status status = session.SetTrainingGraph(SmallNet());
  if ((device.*fault.calls)() < k) {
    CHECK(session.memory().arena_bytes > small_arena);
    return false;
  }
  CHECK(status.code() == fault.code);
  (device.*fault.fail)(0, 0);
  GoOn(session);  // without the block
  REQUIRE(session.SetTrainingGraph(SmallNet()).ok());
  Train(session, 1);
  CheckSameState(steady, session);
  return true;
}

}  // namespace

TEST_CASE("a graph for which the device refuses memory or a copy leaves the one before") {
  const auto cpu = OpenCpu();
  Session steady = MakeSession(*cpu, {});
  for (const bool with_block : {true, false, false, true}) {
    REQUIRE(steady.SetTrainingGraph(with_block ? SmallNet() : SmallNetWithoutBlock()).ok());
    Train(steady, 1);
  }
  for (const int count : {1, kForGood}) {
    int refused = 0, copies = 0;
    const Fault pinned = {&FaultyDevice::FailPinned, &FaultyDevice::pinned_calls, count, kRefused};
    while (GrowingFailsAt(refused + 1, pinned, *cpu, steady)) ++refused;
    CHECK(refused >= 1);  // what holds the parameters meanwhile
    const Fault copy = {&FaultyDevice::FailCopies, &FaultyDevice::copy_calls, count,
                        absl::StatusCode::kInternal};
    while (GrowingFailsAt(copies + 1, copy, *cpu, steady)) ++copies;
    CHECK(copies >= 2);  // the parameters to the host and back
  }
}

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

TEST_CASE("a host budget that is too small is refused, and a larger arena works without it") {
  const auto device = OpenCpu();
  PlannerOptions options = Tight(*device);
  const int64_t minimum = options.budget_bytes;
  options.host_budget_bytes = kBlockBytes;
  CHECK(CreateSession(SmallNet(), *device, options).status().code() == kRefused);
  options.budget_bytes = kUnlimited;
  Session session = MakeSession(*device, options);
  Session steady = MakeSession(*device, {});
  Train(steady, 3);
  Train(session, 1);
  const absl::Status refused = session.SetBudget(minimum);
  CHECK(refused.code() == kRefused);
  CHECK(std::string(refused.message()).find("a host budget of 1024 bytes") != std::string::npos);
  Train(session, 1);
  REQUIRE(session.SetBudget(2 * session.memory().arena_bytes).ok());
  Train(session, 1);
  CheckSameState(steady, session);
}

TEST_CASE("a budget below the minimum is refused in the middle of training") {
  const auto device = OpenCpu();
  Session steady = MakeSession(*device, {});
  Train(steady, 4);
  for (const char* policy : {"liveness", "tensor-cache", "superneurons"}) {
    CAPTURE(policy);
    Session session = MakeSession(*device, {.policy = policy});
    Train(session, 2);
    const int64_t minimum = session.planning().minimum_budget_bytes;
    for (const int64_t budget : {minimum - kBlockBytes, int64_t{0}, int64_t{-1}}) {
      CHECK(session.SetBudget(budget).code() == kRefused);
    }
    Train(session, 1);
    REQUIRE(session.SetBudget(minimum).ok());
    CHECK(session.SetBudget(minimum - kBlockBytes).code() == kRefused);
    REQUIRE(session.SetBudget(2 * minimum).ok());
    Train(session, 1);
    CheckSameState(steady, session);
  }
}

// How many allocations of pinned and of peer memory making such a session takes.
int RefuseEachOf(const PlannerOptions& options, Device& cpu) {
  FaultyDevice device(cpu);
  int refused = 0;
  for (int k = 1;; ++k) {
    device.FailPinned(k, 1);
    const absl::StatusOr<Session> session = CreateSession(SmallNet(), device, options);
    if (device.pinned_calls() < k) break;
    ++refused;
    CHECK(session.status().code() == kRefused);
    CHECK(*device.UsedBytes() == 0);
    CHECK(device.pinned_bytes() == 0);
  }
  return refused;
}

TEST_CASE("no session is made without pinned memory or a peer's, whichever allocation is refused") {
  const auto cpu = OpenCpu();
  PlannerOptions options = Tight(*cpu);
  const int refused = RefuseEachOf(options, *cpu);
  CHECK(refused > 8 + 1);  // two steps' staging, the host pool, first values
  options.peer_budget_bytes = MakeSession(*cpu, options).plan().host_pool_bytes / 2;
  CHECK(RefuseEachOf(options, *cpu) > refused);  // and the peer's
}

TEST_CASE("pinned memory that is refused, once or for good, costs no bit of the training") {
  for (const int count : {1, kForGood}) {
    CAPTURE(count);
    CheckCostsNoBit({&FaultyDevice::FailPinned, &FaultyDevice::pinned_calls, count, kRefused});
  }
}

TEST_CASE("a copy that fails between two steps costs no bit of the training") {
  CheckCostsNoBit(
      {&FaultyDevice::FailCopies, &FaultyDevice::copy_calls, 1, absl::StatusCode::kInternal});
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
      CHECK(again.code() == kWaiting);
      CHECK(std::string(again.message()).find("copy failed by the test") != std::string::npos);
      CHECK(session.Save(path).code() == kWaiting);  // the valid file is not overwritten
      CHECK(session.Evaluate(MakeBatch(3)).status().code() == kWaiting);
      CHECK(session.SetTrainingGraph(SmallNet()).code() == kWaiting);
      REQUIRE(session.Load(path).ok());
      CHECK(session.step() == 2);
      Train(session, 3);
    }
    CheckSameState(steady, session);
  }
  CHECK(repeated == 3);  // images, labels, the iteration's scalars
  CHECK(loaded > 2);     // offloads, prefetches, the loss
}

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
  CHECK(session.Begin(MakeBatch(1)).code() == kWaiting);
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
    CHECK(status.code() == kRefused);
    CHECK(session.step() == 3);
    device.FailPinned(0, 0);
    CHECK(session.Values("fc.weight").ok());
  }
  device.FailPinned(0, 0);
  Train(session, 2);
  for (const int k : {1, 5}) {
    device.FailCopies(k, 1);
    CHECK(session.Load(path).code() == absl::StatusCode::kInternal);
    CHECK(session.TrainStep(MakeBatch(3)).status().code() == kWaiting);
  }
  device.FailCopies(0, 0);
  REQUIRE(session.Load(path).ok());
  Train(session, 3);
  CheckSameState(steady, session);
}

}  // namespace neap
