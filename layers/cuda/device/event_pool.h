// A pool of reusable CUDA events: an iteration records hundreds, and creating one may synchronise.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// *Ownership*: events hold the pool, so they may outlive the device. *Threads*: any.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  // `flags` are passed to cudaEventCreateWithFlags().
  explicit EventPool(unsigned flags) : flags_(flags) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool();

  // An event that returns to the pool when its last copy is destroyed. The pointer is the
  // cudaEvent_t.
  absl::StatusOr<Event> Take();

 private:
  const unsigned flags_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;  // guarded by mutex_
};

}  // namespace neap
