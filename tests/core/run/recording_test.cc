// Iterations on a device that records work: what is recorded, and when.
#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "neap/core/plan/plan.h"
#include "neap/core/program/passes.h"
#include "neap/core/run/executor.h"
#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "tests/forwarding_device.h"
#include "tests/small_net.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// Counts captures and replays. The kernels of the CPU run when they are captured, so only counts
// can be compared, not values.
class RecordingDevice final : public ForwardingDevice {
 public:
  explicit RecordingDevice(Device& device) : ForwardingDevice(device) {}

  absl::Status Copy(Stream stream, void* to, const void* from, int64_t bytes) override {
    CHECK(!capturing_);
    return ForwardingDevice::Copy(stream, to, from, bytes);
  }
  absl::StatusOr<Event> Record(Stream stream) override {
    CHECK(!capturing_);
    return ForwardingDevice::Record(stream);
  }
  absl::Status Wait(Stream stream, const Event& event) override {
    CHECK(!capturing_);
    return ForwardingDevice::Wait(stream, event);
  }
  absl::StatusOr<std::unique_ptr<Recording>> Capture(
      absl::FunctionRef<absl::Status()> enqueue) override {
    ++captures;
    if (captures == refused) return absl::InternalError("cannot be recorded");
    capturing_ = true;
    const absl::Status enqueued = enqueue();
    capturing_ = false;
    if (!enqueued.ok()) return enqueued;
    return std::make_unique<Recording>();
  }
  absl::Status Replay(const Recording& /*recording*/) override {
    ++replays;
    return absl::OkStatus();
  }

  int captures = 0;
  int replays = 0;
  int refused = 0;  // the capture that fails, counted from 1

 private:
  bool capturing_ = false;
};

// The runs of at least so many kernels between which nothing is enqueued. Some of them may be one
// run, because not every kernel that another stream waits for needs an event of its own.
int Runs(const Plan& plan, std::ptrdiff_t kernels_each) {
  std::set<size_t> awaited;
  for (const Action& action : plan.actions)
    if (const auto* const wait = std::get_if<WaitAction>(&action)) awaited.insert(wait->on);
  int runs = 0, kernels = 0;
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    const Action& action = plan.actions[i];
    const bool is_memory =
        std::holds_alternative<AllocAction>(action) || std::holds_alternative<FreeAction>(action);
    if (is_memory) continue;
    const bool is_kernel = std::holds_alternative<ComputeAction>(action);
    if (is_kernel && ++kernels == kernels_each) ++runs;
    if (!is_kernel || awaited.contains(i)) kernels = 0;
  }
  return runs;
}

}  // namespace

TEST_CASE("the second iteration of a plan is recorded, and it and the later ones are replayed") {
  const auto cpu = OpenCpu();
  RecordingDevice device(*cpu);
  Session session = MakeSession(device, {});
  Train(session, 1);
  CHECK(device.captures == 0);
  CHECK(absl::IsFailedPrecondition(session.recording()));
  Train(session, 1);
  CHECK(device.captures == 1);
  CHECK(device.replays == 1);
  CHECK(session.recording().ok());
  Train(session, 3);
  CHECK(device.captures == 1);
  CHECK(device.replays == 4);
  REQUIRE(session.SetBudget(session.plan().arena_bytes - 1).ok());
  Train(session, 1);
  CHECK(device.captures == 1);
  Train(session, 1);
  CHECK(device.captures > 1);
}

TEST_CASE("long runs of kernels are recorded between copies, and copies are not") {
  const auto cpu = OpenCpu();
  RecordingDevice device(*cpu);
  Session session = MakeSession(device, {.policy = "offload"});
  Train(session, 2);
  const int recordings = device.captures;
  CHECK(recordings >= Runs(session.plan(), Executor::kMinRecorded));
  CHECK(recordings > 1);
  CHECK(recordings < Runs(session.plan(), 1));
  CHECK(device.replays == recordings);
  Train(session, 2);
  CHECK(device.captures == recordings);
  CHECK(device.replays == 3 * recordings);
}

// Recordings of the plan's second iteration.
int RecordingsOf(const Program& program, const Plan& plan, Device& cpu) {
  RecordingDevice device(cpu);
  std::vector<std::byte> arena(static_cast<size_t>(plan.arena_bytes));  // zeros are labels, too
  Executor executor = Executor::Create(program, plan, device, {arena.data()}).value();
  for (int iteration = 0; iteration < 2; ++iteration) REQUIRE(executor.Run().ok());
  return device.captures;
}

TEST_CASE("a kernel that runs a batch in four parts is recorded, also if it is alone") {
  const auto cpu = OpenCpu();
  const Program program = Lower(SmallNet(), {}, cpu->description()).value();
  Plan plan = MakePlan(program, {.policy = "offload"}, cpu->description(), cpu->backend())->plan;
  const int undivided = RecordingsOf(program, plan, *cpu);
  const auto divide = [&plan](int parts) {
    for (Action& action : plan.actions) {
      auto* const compute = std::get_if<ComputeAction>(&action);
      if (compute == nullptr || compute->engines.empty()) continue;
      const PlanStep& step = plan.steps[compute->step.index()];
      if (step.type != "convolution" || step.phase == Phase::kBackwardParams) continue;
      const std::string engine = compute->engines.front().engine;
      compute->engines.assign(static_cast<size_t>(parts), {engine, plan.batch / parts});
    }
  };
  REQUIRE(Executor::kMinRecorded == 4);
  divide(4);
  CHECK(RecordingsOf(program, plan, *cpu) > undivided);
  divide(1);
  CHECK(RecordingsOf(program, plan, *cpu) == undivided);
}

TEST_CASE("a device that does not record enqueues every iteration, and is asked once") {
  const auto cpu = OpenCpu();
  RecordingDevice device(*cpu);
  device.refused = 1;
  Session plain = MakeSession(*cpu, {});
  Session session = MakeSession(device, {});
  CHECK(Train(session, 4) == Train(plain, 4));
  CHECK(device.captures == 1);
  CHECK(device.replays == 0);
  CHECK(session.recording() == absl::InternalError("cannot be recorded"));
  CHECK(absl::IsUnimplemented(plain.recording()));
  CheckSameState(session, plain);
}

TEST_CASE("if a part of an iteration cannot be recorded, all of it is enqueued") {
  const auto cpu = OpenCpu();
  RecordingDevice device(*cpu);
  device.refused = 2;
  Session session = MakeSession(device, {.policy = "offload"});
  Train(session, 4);
  CHECK(device.captures == 2);
  CHECK(device.replays == 0);
  CHECK(session.recording() == absl::InternalError("cannot be recorded"));
}

TEST_CASE("recording can be switched off") {
  const auto cpu = OpenCpu();
  RecordingDevice device(*cpu);
  Session session = MakeSession(device, {}, {.records_iterations = false});
  Train(session, 3);
  CHECK(device.captures == 0);
  CHECK(device.replays == 0);
}

}  // namespace neap
