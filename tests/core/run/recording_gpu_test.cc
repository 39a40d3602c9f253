// A GPU replays iterations as CUDA graphs with the bits of iterations that are enqueued, and works
// on after a capture that failed.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>

#include "neap/core/base/status_macros.h"
#include "neap/core/run/session.h"
#include "tests/gpu_test.h"
#include "tests/small_training.h"

namespace neap {

TEST_CASE("on a GPU, recorded iterations train and evaluate to the same bits") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  for (const std::string policy : {"liveness", "offload", "tensor-cache", "superneurons", "auto"}) {
    CAPTURE(policy);
    PlannerOptions options = {.policy = policy, .strict = true};
    options.budget_bytes = MakeSession(*gpu, options).planning().minimum_budget_bytes;
    Session recorded = MakeSession(*gpu, options);
    Session enqueued = MakeSession(*gpu, options, {.records_iterations = false});
    for (uint64_t i = 0; i < 4; ++i) {
      CHECK(Train(recorded, 1) == Train(enqueued, 1));
      CHECK(recorded.Evaluate(MakeBatch(i))->loss == enqueued.Evaluate(MakeBatch(i))->loss);
    }
    REQUIRE(recorded.SetBudget(kUnlimited).ok());
    REQUIRE(enqueued.SetBudget(kUnlimited).ok());
    Train(recorded, 3);
    Train(enqueued, 3);
    CheckSameState(recorded, enqueued);
    CHECK(recorded.memory().measured_peak_bytes == enqueued.memory().measured_peak_bytes);
  }
}

//   compute  |record|      |synchronize: breaks the capture
//   d2h             |wait|              |copy, record: fail
TEST_CASE("a capture that fails leaves the GPU usable") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  constexpr int64_t kBytes = 4096;
  const Buffer device = gpu->Allocate(MemoryKind::kDevice, kBytes).value();
  const Buffer host = gpu->Allocate(MemoryKind::kPinnedHost, kBytes).value();
  bool copies = false, records = false;
  const auto waits = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const Event begun, gpu->Record(Stream::kCompute));
    RETURN_IF_ERROR(gpu->Wait(Stream::kD2h, begun));
    CHECK(!gpu->Synchronize().ok());
    copies = gpu->Copy(Stream::kD2h, host.data(), device.data(), kBytes).ok();
    records = gpu->Record(Stream::kD2h).ok();
    return absl::OkStatus();
  };
  CHECK(!gpu->Capture(waits).ok());
  CHECK(!copies);
  CHECK(!records);
  CHECK(gpu->Synchronize().ok());
  std::memset(host.data(), 1, kBytes);
  REQUIRE(gpu->Copy(Stream::kCompute, device.data(), host.data(), kBytes).ok());
  REQUIRE(gpu->Synchronize().ok());
  std::memset(host.data(), 0, kBytes);
  const auto copies_back = [&] {
    return gpu->Copy(Stream::kCompute, host.data(), device.data(), kBytes);
  };
  const absl::StatusOr<std::unique_ptr<Recording>> recording = gpu->Capture(copies_back);
  REQUIRE_MESSAGE(recording.ok(), recording.status().ToString());
  REQUIRE(gpu->Replay(**recording).ok());
  REQUIRE(gpu->Synchronize().ok());
  CHECK(host.data()[kBytes - 1] == std::byte{1});
}

}  // namespace neap
