#include "neap/layers/cuda/event_pool.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/cuda_status.h"

namespace neap {

EventPool::~EventPool() {
  for (cudaEvent_t event : free_) cudaEventDestroy(event);
}

absl::StatusOr<Event> EventPool::Take() {
  cudaEvent_t event = nullptr;
  if (free_.empty()) {
    RETURN_IF_ERROR(
        CudaStatus(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreateWithFlags"));
  } else {
    event = free_.back();
    free_.pop_back();
  }
  return Event(event, [pool = shared_from_this()](void* used) {
    pool->free_.push_back(static_cast<cudaEvent_t>(used));
  });
}

}  // namespace neap
