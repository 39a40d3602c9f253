// Random initial values are drawn when something needs them, unless a file replaces them first.
#include <doctest/doctest.h>

#include <string>

#include "neap/core/run/session.h"
#include "tests/forwarding_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// Counts the bytes that a session reserves for what it copies to the arena.
class CountingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override {
    if (refuses) return absl::ResourceExhaustedError("no memory");
    allocated_bytes += size_bytes;
    return ForwardingDevice::Allocate(kind, size_bytes);
  }
  bool refuses = false;
  int64_t allocated_bytes = 0;
};

TEST_CASE("initial values are the same whatever reads or changes them first") {
  const auto device = OpenCpu();
  const ScratchDirectory scratch;
  Session read = MakeSession(*device, {});
  Session saved = MakeSession(*device, {});
  Session evaluated = MakeSession(*device, {});
  Session moved = MakeSession(*device, {});
  Session trained = MakeSession(*device, {});
  CHECK(read.Values("fc.weight").ok());
  CHECK(saved.Save(scratch.File("saved")).ok());
  CHECK(evaluated.Evaluate(MakeBatch(0)).ok());
  CHECK(moved.SetBudget(moved.planning().minimum_budget_bytes).ok());
  CHECK(moved.SetTrainingGraph(SmallNet()).ok());
  CheckSameState(read, saved);
  CHECK(SameBits(*read.Values("fc.weight"), *evaluated.Values("fc.weight")));
  CheckSameState(read, moved);
  Train(trained, 2);
  REQUIRE(read.Load(scratch.File("saved")).ok());
  Train(read, 2);
  CheckSameState(read, trained);
}

TEST_CASE("a file that replaces the random values is all that is written") {
  const auto cpu = OpenCpu();
  const ScratchDirectory scratch;
  Session from = MakeSession(*cpu, {}, {.seed = 9});
  Train(from, 2);
  REQUIRE(from.Save(scratch.File("saved")).ok());
  CountingDevice device(*cpu);
  Session session = MakeSession(device, {});
  REQUIRE(session.Load(scratch.File("saved")).ok());
  device.allocated_bytes = 0;
  Train(session, 1);
  CHECK(device.allocated_bytes == 0);
  Train(from, 1);
  CheckSameState(from, session);
}

TEST_CASE("a step for which initial values cannot be written can be tried again") {
  const auto cpu = OpenCpu();
  CountingDevice device(*cpu);
  Session session = MakeSession(device, {});
  Session steady = MakeSession(*cpu, {});
  device.refuses = true;
  CHECK(absl::IsResourceExhausted(session.TrainStep(MakeBatch(0)).status()));
  device.refuses = false;
  CHECK(device.allocated_bytes > 0);
  Train(session, 1);
  Train(steady, 1);
  CheckSameState(steady, session);
}

}  // namespace
}  // namespace neap
