// Kernels that a program registers for custom layers, on a GPU.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "examples/custom_layer/gelu.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/run/session.h"
#include "neap/layers/cuda/cuda_device.h"
#include "neap/memory/create_session.h"
#include "tests/gpu_test.h"
#include "tests/layers/gelu_checks.h"

namespace neap::testing {
namespace {

// Null without a GPU, with a message that says why.
std::unique_ptr<CudaDevice> OpenWithQuickGeluOrSkip() {
  if (!OpenGpuOrSkip()) return nullptr;
  absl::StatusOr<std::unique_ptr<CudaDevice>> gpu =
      CudaDevice::Open(0, {.kernels = CudaQuickGeluKernels()});
  REQUIRE_MESSAGE(gpu.ok(), gpu.status().ToString());
  return *std::move(gpu);
}

TEST_CASE("on a GPU the gradient of the example's GELU agrees with finite differences") {
  const std::unique_ptr<CudaDevice> gpu = OpenWithQuickGeluOrSkip();
  if (!gpu) return;
  CheckQuickGeluGradient(*gpu);
}

TEST_CASE("on a GPU a custom layer trains to the same bits with every policy") {
  const std::unique_ptr<CudaDevice> gpu = OpenWithQuickGeluOrSkip();
  if (!gpu) return;
  CheckQuickGeluTrainsTheSameUnderEveryPolicy(*gpu);
}

TEST_CASE("on a GPU iterations with a kernel that waits are not recorded, and have the same bits") {
  if (!OpenGpuOrSkip()) return;
  std::vector<CustomKernel> kernels = CudaQuickGeluKernels();
  CudaDevice* device = nullptr;
  int runs = 0;
  kernels[0].run = [&, enqueue = kernels[0].run](const CustomRun& step) {
    ++runs;
    const absl::Status enqueued = enqueue(step);
    device->Synchronize().IgnoreError();  // breaks a capture
    return enqueued;
  };
  const std::unique_ptr<CudaDevice> gpu = CudaDevice::Open(0, {.kernels = kernels}).value();
  device = gpu.get();
  const PlannerOptions offload = {.policy = "vdnn-all", .strict = true};
  Session waiting = CreateSession(QuickGeluNet(), *gpu, offload).value();
  Session enqueued =
      CreateSession(QuickGeluNet(), *gpu, offload, {.records_iterations = false}).value();
  CHECK(waiting.plan().host_pool_bytes > 0);  // copies on other streams are part of the capture
  const Batch batch = {.images = std::vector<float>(8 * 3 * 8 * 8, 0.5F),
                       .labels = std::vector<int32_t>(8, 1),
                       .size = 8};
  for (int i = 0; i < 4; ++i) {
    const absl::StatusOr<float> loss = waiting.TrainStep(batch);
    REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    CHECK(*loss == enqueued.TrainStep(batch).value());
  }
  CHECK(*waiting.Values("conv1.weight") == *enqueued.Values("conv1.weight"));
  CHECK(runs >= 2 * 4 * 3);  // steps of both sessions, and layers
}

TEST_CASE("a GPU refuses the kernels that the CPU refuses, and names a layer without one") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  std::vector<CustomKernel> twice = CudaQuickGeluKernels();
  twice.push_back(twice.front());
  CHECK(absl::IsInvalidArgument(CudaDevice::Open(0, {.kernels = twice}).status()));
  const absl::Status status = CreateSession(QuickGeluNet(), *gpu, {}).status();
  CHECK(absl::IsUnimplemented(status));
  CHECK(std::string(status.message()).find("CUDA has no kernel for quick_gelu forward") !=
        std::string::npos);
}

TEST_CASE("a launch that fails on a GPU ends the step with the layer's type and the reason") {
  if (!OpenGpuOrSkip()) return;
  std::vector<CustomKernel> kernels = CudaQuickGeluKernels();
  kernels[0].run = [](const CustomRun& step) {
    CHECK(step.stream != nullptr);
    return absl::InternalError("not launched");
  };
  const std::unique_ptr<CudaDevice> gpu = CudaDevice::Open(0, {.kernels = kernels}).value();
  Session session = CreateSession(QuickGeluNet(), *gpu, {}).value();
  const Batch batch = {.images = std::vector<float>(8 * 3 * 8 * 8, 0.5F),
                       .labels = std::vector<int32_t>(8, 1),
                       .size = 8};
  const absl::Status status = session.TrainStep(batch).status();
  CHECK(absl::IsInternal(status));
  CHECK(std::string(status.message()).find("registered for quick_gelu forward: not launched") !=
        std::string::npos);
}

}  // namespace
}  // namespace neap::testing
