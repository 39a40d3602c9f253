// A batch that is copied while the iteration before it runs: the same bits, in every order of the
// streams, and every wait that this takes is needed.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/run/file_planner.h"
#include "neap/core/run/session.h"
#include "neap/memory/planner.h"
#include "tests/adversarial_device.h"
#include "tests/faulty_device.h"
#include "tests/own_memory_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr int kIncomingSteps = 4;

// Leaves out the waits of one stream for another's events.
class ForgetfulDevice final : public ForwardingDevice {
 public:
  ForgetfulDevice(Device& device, Stream waiting, Stream awaited)
      : ForwardingDevice(device), waiting_(waiting), awaited_(awaited) {}

  absl::StatusOr<Event> Record(Stream stream) override {
    absl::StatusOr<Event> event = ForwardingDevice::Record(stream);
    if (event.ok() && stream == awaited_) events_.push_back(*event);
    return event;
  }
  absl::Status Wait(Stream stream, const Event& event) override {
    const bool is_awaited = std::find(events_.begin(), events_.end(), event) != events_.end();
    if (stream != waiting_ || !is_awaited) return ForwardingDevice::Wait(stream, event);
    ++forgotten;
    return absl::OkStatus();
  }

  int forgotten = 0;

 private:
  Stream waiting_, awaited_;
  std::vector<Event> events_;
};

// A few steps, two of them in flight, and evaluations between some of them.
Trained TrainAhead(Session session) {
  Trained trained(1);
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint64_t step = 0; step < kIncomingSteps; ++step) {
      REQUIRE(session.Begin(MakeBatch(kIncomingSteps * round + step)).ok());
      if (step > 0) FinishInto(trained, session);
    }
    FinishInto(trained, session);
    trained[0].push_back(session.Evaluate(MakeBatch(round))->loss);
  }
  AppendState(trained, session);
  return trained;
}

// In some order, training on a device that forgets these waits differs.
bool IsNeeded(Device& cpu, Stream waiting, Stream awaited, const Trained& expected) {
  for (uint32_t order = 0; order < AdversarialDevice::kFixedOrders; ++order) {
    AdversarialDevice adversary(cpu, order);
    ForgetfulDevice forgetful(adversary, waiting, awaited);
    OwnMemoryDevice device(forgetful);
    if (!AreSame(TrainAhead(MakeSession(device, {})), expected)) return true;
    CHECK(forgetful.forgotten > 0);
  }
  return false;
}

}  // namespace

TEST_CASE("a batch that is copied ahead trains to the same bits, and is in the peak") {
  const auto cpu = OpenCpu();
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    OwnMemoryDevice device(*cpu);
    Session before = MakeSession(*cpu, {}, {}, layout);
    Session ahead = MakeSession(device, {}, {}, layout);
    CHECK(!before.plan().incoming_batch.has_value());
    REQUIRE(ahead.plan().incoming_batch.has_value());
    // The same steps, some of which update several layers, without such a batch.
    const Program program = Lower(SmallNet(layout), {}, device.description()).value();
    const Plan without =
        MakePlan(program, {.strict = true}, cpu->description(), cpu->backend()).value().plan;
    CHECK(!without.incoming_batch.has_value());
    CHECK(ahead.plan().peak_bytes == without.peak_bytes + ahead.plan().incoming_batch->bytes);
    for (int step = 0; step < kIncomingSteps; ++step) CHECK(Train(before, 1) == Train(ahead, 1));
    CheckSameState(before, ahead);
    const MemoryUse use = ahead.memory();
    CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
    CHECK(ahead.Evaluate(MakeBatch(1))->loss == before.Evaluate(MakeBatch(1))->loss);
    CHECK(ahead.TimeStep(MakeBatch(9))->result.loss == before.TrainStep(MakeBatch(9)).value());
    CheckSameState(before, ahead);
  }
}

TEST_CASE("a budget without bytes for the incoming batch copies it before its iteration") {
  const auto cpu = OpenCpu();
  OwnMemoryDevice device(*cpu);
  Session steady = MakeSession(*cpu, {});
  Session session = MakeSession(device, {.policy = "tensor-cache"});
  const auto copies_of_step = [&](Stream stream) {
    const int before = device.copies[static_cast<size_t>(stream)];
    CHECK(Train(session, 1) == Train(steady, 1));
    return device.copies[static_cast<size_t>(stream)] - before;
  };
  constexpr int kValues = 3;  // images, labels, scalars; and the iteration's result
  CHECK(copies_of_step(Stream::kInput) == kValues);
  CHECK(copies_of_step(Stream::kCompute) == kValues + 1);
  REQUIRE(session.SetBudget(session.planning().minimum_budget_bytes).ok());
  CHECK(!session.plan().incoming_batch.has_value());
  CHECK(copies_of_step(Stream::kInput) == 0);
  CHECK(copies_of_step(Stream::kCompute) == kValues + 1);
  CHECK(session.memory().measured_peak_bytes == session.memory().predicted_peak_bytes);
  REQUIRE(session.SetBudget(kUnlimited).ok());
  CHECK(copies_of_step(Stream::kInput) == kValues);
  REQUIRE(session.SetTrainingGraph(SmallNet(Layout::kChannelsFirst, /*with_block=*/false)).ok());
  REQUIRE(steady.SetTrainingGraph(SmallNet(Layout::kChannelsFirst, /*with_block=*/false)).ok());
  CHECK(copies_of_step(Stream::kInput) == kValues);
  CheckSameState(session, steady);
}

TEST_CASE("only training has an incoming batch") {
  const auto cpu = OpenCpu();
  OwnMemoryDevice device(*cpu);
  Session session = MakeSession(device, {}, {.inference_only = true});
  CHECK(!session.plan().incoming_batch.has_value());
  REQUIRE(session.Evaluate(MakeBatch(1)).ok());
  CHECK(device.copies[static_cast<size_t>(Stream::kInput)] == 0);
}

TEST_CASE("in every order of the streams, batches that are copied ahead train to the same bits") {
  const auto cpu = OpenCpu();
  const Trained expected = TrainAhead(MakeSession(*cpu, {}));
  int overtaking_orders = 0;
  for (uint32_t order = 0; order < AdversarialDevice::kFixedOrders + 6; ++order) {
    CAPTURE(order);
    AdversarialDevice adversary(*cpu, order);
    OwnMemoryDevice device(adversary);
    CHECK(AreSame(TrainAhead(MakeSession(device, {})), expected));
    CHECK(adversary.Fault() == "");
    // Nothing but the batch's copy can overtake: nothing is offloaded.
    overtaking_orders += adversary.overtakings() > 0 ? 1 : 0;
  }
  CHECK(overtaking_orders > 0);
}

TEST_CASE("the copy within the device waits for the batch, and the next batch for that copy") {
  const auto cpu = OpenCpu();
  const Trained expected = TrainAhead(MakeSession(*cpu, {}));
  CHECK(IsNeeded(*cpu, Stream::kCompute, Stream::kInput, expected));
  CHECK(IsNeeded(*cpu, Stream::kInput, Stream::kCompute, expected));
}

TEST_CASE("with transfers, too, a batch may be copied ahead") {
  const auto cpu = OpenCpu();
  const Trained expected = TrainAhead(MakeSession(*cpu, {}));
  for (uint32_t order = 0; order < AdversarialDevice::kFixedOrders; order += 5) {
    CAPTURE(order);
    AdversarialDevice adversary(*cpu, order);
    OwnMemoryDevice device(adversary);
    Session session = MakeSession(device, {.policy = "offload"});
    REQUIRE(session.plan().incoming_batch.has_value());
    REQUIRE(session.plan().host_peak_bytes > 0);
    CHECK(AreSame(TrainAhead(std::move(session)), expected));
    CHECK(adversary.Fault() == "");
  }
}

TEST_CASE("a copy that fails before the iteration begins leaves the session as it was") {
  const auto cpu = OpenCpu();
  Session steady = MakeSession(*cpu, {});
  Train(steady, 2);
  FaultyDevice faulty(*cpu);
  OwnMemoryDevice device(faulty);
  constexpr int kCopies = 6;  // of images, labels and scalars: from the host, and within the device
  for (int copy = 1; copy <= kCopies; ++copy) {
    CAPTURE(copy);
    Session session = MakeSession(device, {});
    Train(session, 1);
    faulty.FailCopies(copy, 1);
    CHECK(absl::IsInternal(session.Begin(MakeBatch(7))));
    CHECK(session.step() == 1);
    Train(session, 1);
    CheckSameState(session, steady);
  }
}

TEST_CASE("a plan from a file keeps its incoming batch on any device") {
  const auto cpu = OpenCpu();
  OwnMemoryDevice device(*cpu);
  // With this option, every device updates one layer by a step. No parameter is large enough to
  // move.
  Session written = MakeSession(device, {.offload_params = true});
  const ScratchDirectory directory;
  const std::string path = directory.File("plan.json");
  WriteText(path, written.plan().ToJson());
  absl::StatusOr<std::shared_ptr<const Planner>> planner = PlannerFromFile(path, PlannerFor({}));
  REQUIRE_MESSAGE(planner.ok(), planner.status().ToString());
  absl::StatusOr<Session> read = Session::Create(SmallNet(), *cpu, *planner);
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(read->plan() == written.plan());
  CHECK(Train(*read, kIncomingSteps) == Train(written, kIncomingSteps));
  CheckSameState(*read, written);
  CHECK(read->memory().measured_peak_bytes == read->memory().predicted_peak_bytes);
}

}  // namespace neap
