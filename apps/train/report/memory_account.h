// The memory of a training process as the GPU's driver counts it.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "apps/train/report/train_summary.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/core/run/session_results.h"

namespace neap::apps {

// Libraries load code when a kernel first runs, and the second step is recorded
// (core/run/executor.h), so their share is measured after the second step; later growth is
// unaccounted for.
class MemoryAccount {
 public:
  explicit MemoryAccount(Device& device) : device_(device) {}

  void AfterStep() {
    if (steps_++ < 2) library_bytes_ = device_.LibraryBytes();
  }
  // Call it before other ranks end and free what the device lends them. Empty on devices that do
  // not report it, and if no step was taken.
  absl::StatusOr<std::optional<DeviceMemory>> Close(const MemoryUse& memory) const {
    ASSIGN_OR_RETURN(const std::optional<int64_t> library_bytes, library_bytes_);
    if (!library_bytes.has_value()) return std::nullopt;
    ASSIGN_OR_RETURN(const int64_t used, device_.UsedBytes());
    const int64_t arena = RoundUp(memory.arena_bytes, device_.description().page_bytes);
    return DeviceMemory{.library_bytes = *library_bytes,
                        .used_bytes = used,
                        .unaccounted_bytes = used - arena - *library_bytes};
  }

 private:
  Device& device_;
  int64_t steps_ = 0;
  absl::StatusOr<std::optional<int64_t>> library_bytes_ = std::optional<int64_t>();
};

}  // namespace neap::apps
