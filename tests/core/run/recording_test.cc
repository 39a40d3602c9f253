// Iterations on a device that records work: what is recorded, and when.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "tests/forwarding_device.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// Records by remembering the calls, and replays by making them again. Counts both.
class RecordingDevice final : public ForwardingDevice {
 public:
  explicit RecordingDevice(Device& device) : ForwardingDevice(device) {}

  struct Calls final : Recording {
    std::vector<std::function<absl::Status()>> calls;
  };

  absl::Status Copy(Stream stream, void* to, const void* from, int64_t bytes) override {
    if (recording_ == nullptr) return ForwardingDevice::Copy(stream, to, from, bytes);
    recording_->calls.push_back([this, stream, to, from, bytes] {
      return ForwardingDevice::Copy(stream, to, from, bytes);
    });
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Recording>> Capture(
      absl::FunctionRef<absl::Status()> enqueue) override {
    ++captures;
    if (refuses) return absl::InternalError("cannot be recorded");
    auto recording = std::make_unique<Calls>();
    recording_ = recording.get();
    const absl::Status enqueued = enqueue();
    recording_ = nullptr;
    if (!enqueued.ok()) return enqueued;
    return recording;
  }
  absl::Status Replay(const Recording& recording) override {
    ++replays;
    for (const auto& call : static_cast<const Calls&>(recording).calls) {
      if (absl::Status status = call(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  int captures = 0;
  int replays = 0;
  bool refuses = false;

 private:
  Calls* recording_ = nullptr;
};

}  // namespace

TEST_CASE("the second iteration of a plan is recorded, and it and the later ones are replayed") {
  const auto cpu = OpenCpu();
  RecordingDevice device(*cpu);
  Session session = MakeSession(device, {});
  Train(session, 1);
  CHECK(device.captures == 0);
  CHECK(absl::IsFailedPrecondition(session.recording()));
  // The kernels of the CPU run when they are captured, so only counts are compared here.
  Train(session, 1);
  CHECK(device.captures == 1);
  CHECK(device.replays == 1);
  CHECK(session.recording().ok());
  Train(session, 3);
  CHECK(device.captures == 1);
  CHECK(device.replays == 4);
  REQUIRE(session.SetBudget(session.planning().minimum_budget_bytes).ok());
  Train(session, 2);
  CHECK(device.captures == 2);
  CHECK(device.replays == 5);
}

TEST_CASE("a device that does not record enqueues every iteration, and is asked once") {
  const auto cpu = OpenCpu();
  RecordingDevice device(*cpu);
  device.refuses = true;
  Session plain = MakeSession(*cpu, {});
  Session session = MakeSession(device, {});
  CHECK(Train(session, 4) == Train(plain, 4));
  CHECK(device.captures == 1);
  CHECK(device.replays == 0);
  CHECK(session.recording() == absl::InternalError("cannot be recorded"));
  CHECK(absl::IsUnimplemented(plain.recording()));
  CheckSameState(session, plain);
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
