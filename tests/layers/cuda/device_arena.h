// Memory of a GPU for the kernel tests.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "neap/core/base/units.h"
#include "neap/layers/cuda/cuda_device.h"
#include "tests/layers/harness.h"

namespace neap::testing {

// Memory for the harness from one allocation, which is reused once all of it has been released.
class DeviceArena {
 public:
  explicit DeviceArena(CudaDevice& device, int64_t size_bytes = kGiB) : device_(device) {
    absl::StatusOr<Buffer> buffer = device.Allocate(MemoryKind::kDevice, size_bytes);
    REQUIRE(buffer.ok());
    buffer_ = *std::move(buffer);
  }
  DeviceAccess Access() {
    return {
        .allocate = [this](int64_t bytes) { return Take(bytes); },
        .release =
            [this](void*) {
              if (--live_ == 0) used_ = 0;
            },
        .copy_in = [this](void* to, const void* from, int64_t bytes) { Copy(to, from, bytes); },
        .copy_out = [this](void* to, const void* from, int64_t bytes) { Copy(to, from, bytes); }};
  }

 private:
  void* Take(int64_t bytes) {
    void* const at = buffer_.data() + used_;
    used_ += RoundUp(bytes, 256);
    REQUIRE(used_ <= buffer_.size_bytes());
    ++live_;
    return at;
  }
  void Copy(void* to, const void* from, int64_t bytes) {
    const absl::Status copied = device_.Copy(Stream::kCompute, to, from, bytes);
    REQUIRE_MESSAGE(copied.ok(), std::string(copied.message()));
    const absl::Status done = device_.Synchronize();
    REQUIRE_MESSAGE(done.ok(), std::string(done.message()));
  }

  CudaDevice& device_;
  Buffer buffer_;
  int64_t used_ = 0;
  int live_ = 0;
};

}  // namespace neap::testing
