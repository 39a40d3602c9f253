// For test files called *_gpu_test.cc: opens a GPU, or skips the test visibly.
//
//   TEST_CASE("...") {
//     const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
//     if (!gpu) return;
//
// With NEAP_REQUIRE_GPU set in the environment, a missing GPU is a failure instead.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/cuda/cuda_device.h"
#include "tests/skip.h"

namespace neap::testing {

// Null if there is no GPU, with a message that says why.
inline std::unique_ptr<CudaDevice> OpenGpuOrSkip(CudaDeviceOptions options = {}) {
  absl::StatusOr<std::unique_ptr<CudaDevice>> gpu = CudaDevice::Open(0, std::move(options));
  if (gpu.ok()) return *std::move(gpu);
  const std::string why(gpu.status().message());
  const bool absent = absl::IsNotFound(gpu.status()) || absl::IsUnimplemented(gpu.status());
  if (!absent || std::getenv("NEAP_REQUIRE_GPU") != nullptr) {
    FAIL(why);
    return nullptr;
  }
  SkipCase("no GPU: " + why);
  return nullptr;
}

// As many GPUs, of this machine; empty if there are fewer.
inline std::vector<std::unique_ptr<CudaDevice>> OpenGpusOrSkip(size_t count) {
  std::vector<std::unique_ptr<CudaDevice>> gpus;
  const absl::StatusOr<std::vector<DeviceDescription>> present = ListCudaDevices();
  REQUIRE_MESSAGE(present.ok(), present.status().ToString());
  if (present->size() < count) {
    SkipCase("fewer than " + std::to_string(count) + " GPUs");
    return gpus;
  }
  for (size_t i = 0; i < count; ++i) {
    absl::StatusOr<std::unique_ptr<CudaDevice>> gpu = CudaDevice::Open(static_cast<int>(i));
    REQUIRE_MESSAGE(gpu.ok(), gpu.status().ToString());
    gpus.push_back(*std::move(gpu));
  }
  return gpus;
}

}  // namespace neap::testing
