// Timed steps: the measurements are possible, and training is the same as without timing.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <variant>

#include "neap/core/plan/trace.h"
#include "neap/core/run/session.h"
#include "tests/core/run/measured_timeline.h"
#include "tests/faulty_device.h"
#include "tests/guarded_device.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr absl::StatusCode kUnready = absl::StatusCode::kFailedPrecondition;

// Counts a step's calls to the device other than its kernels and copies.
class CountingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::StatusOr<Event> RecordTime(Stream stream) override {
    ++times;
    return ForwardingDevice::RecordTime(stream);
  }
  absl::Status Copy(Stream stream, void* destination, const void* source,
                    int64_t size_bytes) override {
    copies_since_blocked += stream != Stream::kCompute;
    return ForwardingDevice::Copy(stream, destination, source, size_bytes);
  }
  absl::Status Await(const Event& event) override {
    Block();
    return ForwardingDevice::Await(event);
  }
  absl::Status Synchronize() override {
    Block();
    return ForwardingDevice::Synchronize();
  }

  int times = 0;
  int blocked = 0;
  int copies_when_blocked_first = 0;  // to and from the host
  int copies_since_blocked = 0;

 private:
  void Block() {
    if (++blocked == 1) copies_when_blocked_first = copies_since_blocked;
    copies_since_blocked = 0;
  }
};

int64_t CountTransfers(const Plan& plan) {
  return std::count_if(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    return std::holds_alternative<OffloadAction>(action) ||
           std::holds_alternative<PrefetchAction>(action);
  });
}

TimedStep Time(Session& session) {
  absl::StatusOr<TimedStep> timed =
      session.TimeStep(MakeBatch(static_cast<uint64_t>(session.step())));
  REQUIRE_MESSAGE(timed.ok(), timed.status().ToString());
  return *std::move(timed);
}

}  // namespace

TEST_CASE("the times of a timed step respect the order of the streams and the plan's waits") {
  const auto device = OpenCpu();
  for (const char* policy : {"liveness", "offload", "tensor-cache", "superneurons"}) {
    CAPTURE(policy);
    Session session = MakeSession(*device, Tight(*device, policy));
    Train(session, 1);
    CHECK((CountTransfers(session.plan()) > 0) == (std::string(policy) != "liveness"));
    for (int i = 0; i < 3; ++i)
      CheckPossible(session.plan(), Time(session).timeline, /*resolution_us=*/0);
  }
}

TEST_CASE("a timed step trains to the bits of an untimed one") {
  const auto device = OpenCpu();
  Session steady = MakeSession(*device, {});
  Session timed = MakeSession(*device, Tight(*device));
  const float first = Train(steady, 1);
  const StepResult result = Time(timed).result;
  CHECK(result.loss == first);
  CHECK(result.step == 0);
  Train(timed, 1);
  Time(timed);
  Train(steady, 2);
  CheckSameState(steady, timed);
}

TEST_CASE(
    "a timed step is enqueued completely before the host waits; an untimed one records no times") {
  const auto cpu = OpenCpu();
  const PlannerOptions tight = Tight(*cpu);
  CountingDevice device(*cpu);
  Session session = MakeSession(device, tight);
  Train(session, 2);
  CHECK(device.times == 0);
  device.blocked = device.copies_since_blocked = 0;
  Time(session);
  CHECK(device.times > 2 * CountTransfers(session.plan()));
  CHECK(device.copies_when_blocked_first == CountTransfers(session.plan()));
  CHECK(device.copies_since_blocked == 0);
}

TEST_CASE("a timed step allocates no memory of the device") {
  const auto cpu = OpenCpu();
  const PlannerOptions tight = Tight(*cpu);
  GuardedDevice device(*cpu);
  Session session = MakeSession(device, tight);
  const int allocations = device.allocations();
  Time(session);
  CHECK(device.allocations() == allocations);
}

TEST_CASE("no step is timed while another is in flight, which continues") {
  const auto device = OpenCpu();
  Session steady = MakeSession(*device, {});
  Session session = MakeSession(*device, {});
  REQUIRE(session.Begin(MakeBatch(0)).ok());
  CHECK(session.TimeStep(MakeBatch(1)).status().code() == kUnready);
  REQUIRE(session.Finish().ok());
  Time(session);
  Train(steady, 2);
  CheckSameState(steady, session);
}

TEST_CASE("a timed step that fails half way has the effect of an untimed one") {
  const auto cpu = OpenCpu();
  const PlannerOptions tight = Tight(*cpu);
  FaultyDevice device(*cpu);
  Session session = MakeSession(device, tight);
  device.FailCopies(5, 1);  // images, labels and scalars come first
  const absl::Status failed = session.TimeStep(MakeBatch(0)).status();
  CHECK(failed == absl::InternalError("input to the host: copy failed by the test"));
  CHECK(session.step() == 0);
  CHECK(session.TimeStep(MakeBatch(0)).status().code() == kUnready);
  Batch wrong = MakeBatch(0);
  wrong.labels.pop_back();
  Session other = MakeSession(*cpu, {});
  CHECK(other.TimeStep(wrong).status().code() == absl::StatusCode::kInvalidArgument);
  Time(other);
}

TEST_CASE("the trace of a measured timeline has three tracks and a span per timed action") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, Tight(*device));
  const Timeline timeline = Time(session).timeline;
  const nlohmann::json trace = nlohmann::json::parse(TimelineTrace(session.plan(), timeline));
  std::set<std::string> tracks;
  std::set<int> used;
  int64_t spans = 0;
  double end_us = 0;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") tracks.insert(event.at("args").at("name"));
    if (event.at("ph") != "X") continue;
    ++spans;
    used.insert(event.at("tid").get<int>());
    end_us = std::max(end_us, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  CHECK(tracks == std::set<std::string>{"compute", "d2h", "h2d"});
  CHECK(used.size() == 3);
  CHECK(spans ==
        std::count_if(session.plan().actions.begin(), session.plan().actions.end(),
                      [](const Action& action) { return StreamThatRuns(action).has_value(); }));
  CHECK(end_us == doctest::Approx(timeline.total_us));
}

}  // namespace neap
