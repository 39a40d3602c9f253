// When random initial values are drawn: before the first step of training, and in inference and in
// training that begins with a file when something needs them and the file has not replaced them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "tests/forwarding_device.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

// Refuses memory as long as a test says so.
class RefusingDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override {
    if (refuses) return absl::ResourceExhaustedError("no memory");
    return ForwardingDevice::Allocate(kind, size_bytes);
  }
  bool refuses = false;
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

TEST_CASE("training draws its initial values before the first step, which allocates nothing") {
  const auto cpu = OpenCpu();
  RefusingDevice device(*cpu);
  Session session = MakeSession(device, {});
  device.refuses = true;
  Train(session, 1);
  device.refuses = false;
  Session steady = MakeSession(*cpu, {});
  Train(steady, 1);
  CheckSameState(steady, session);
}

TEST_CASE("inference draws values only if no file replaces them before something needs them") {
  const auto cpu = OpenCpu();
  const ScratchDirectory scratch;
  Session from = MakeSession(*cpu, {}, {.seed = 9});
  Train(from, 2);
  REQUIRE(from.Save(scratch.File("saved")).ok());
  RefusingDevice device(*cpu);
  Session loaded = MakeSession(device, {}, {.inference_only = true});
  REQUIRE(loaded.Load(scratch.File("saved")).ok());
  device.refuses = true;  // a value drawn now would need memory
  CHECK(loaded.Evaluate(MakeBatch(3)).ok());
  device.refuses = false;
  CHECK(SameBits(*loaded.Values("fc.weight"), *from.Values("fc.weight")));
  Session drawn = MakeSession(device, {}, {.inference_only = true});
  device.refuses = true;
  CHECK(absl::IsResourceExhausted(drawn.Evaluate(MakeBatch(3)).status()));
  device.refuses = false;
  CHECK(drawn.Evaluate(MakeBatch(3)).ok());
  Session fresh = MakeSession(*cpu, {});
  CHECK(SameBits(*drawn.Values("fc.weight"), *fresh.Values("fc.weight")));
}

TEST_CASE("training that begins with a file draws nothing that the file has") {
  const auto cpu = OpenCpu();
  const ScratchDirectory scratch;
  Session from = MakeSession(*cpu, {}, {.seed = 9});
  Train(from, 2);
  REQUIRE(from.Save(scratch.File("saved")).ok());
  const std::vector<NamedTensor> tensors = from.Weights().value();
  NamedValues weights;
  for (const NamedTensor& tensor : tensors) weights[tensor.name] = tensor.values;
  Train(from, 2);
  RefusingDevice device(*cpu);
  for (const bool from_file : {true, false}) {
    Session loaded = MakeSession(device, {}, {.loads_values = true});
    REQUIRE((from_file ? loaded.Load(scratch.File("saved")) : loaded.LoadWeights(weights)).ok());
    device.refuses = true;  // a value drawn now would need memory
    Train(loaded, 2);
    device.refuses = false;
    if (from_file) CheckSameState(loaded, from);
  }
}

TEST_CASE("a session that says it loads a file, but does not, trains as others do") {
  const auto cpu = OpenCpu();
  const ScratchDirectory scratch;
  Session steady = MakeSession(*cpu, {});
  REQUIRE(steady.Save(scratch.File("initial")).ok());
  Train(steady, 2);
  for (const char* const first : {"step", "graph", "read", "failed load", "save"}) {
    CAPTURE(first);
    const std::string what = first;
    RefusingDevice device(*cpu);
    Session session = MakeSession(device, {}, {.loads_values = true});
    device.refuses = true;
    CHECK(absl::IsResourceExhausted(session.TrainStep(MakeBatch(0)).status()));
    device.refuses = false;
    if (what == "graph") CHECK(session.SetTrainingGraph(SmallNet()).ok());
    if (what == "read") CHECK(session.Values("fc.weight").ok());
    if (what == "failed load") CHECK(!session.Load(scratch.File("none")).ok());
    if (what == "save") {
      CHECK(session.Save(scratch.File("saved")).ok());
      CHECK(ReadText(scratch.File("saved")) == ReadText(scratch.File("initial")));
    }
    Train(session, 2);
    CheckSameState(session, steady);
  }
}

}  // namespace
}  // namespace neap
