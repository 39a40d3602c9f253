#include "neap/layers/cuda/device/event_pool.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/device/cuda_status.h"

namespace neap {

EventPool::~EventPool() {
  for (cudaEvent_t event : free_) cudaEventDestroy(event);
}

absl::StatusOr<Event> EventPool::Take() {
  cudaEvent_t event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = free_.back();
      free_.pop_back();
    }
  }
  if (event == nullptr) {
    RETURN_IF_ERROR(
        CudaStatus(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreateWithFlags"));
  }
  return Event(event, [pool = shared_from_this()](void* used) {
    const std::lock_guard lock(pool->mutex_);
    pool->free_.push_back(static_cast<cudaEvent_t>(used));
  });
}

}  // namespace neap
