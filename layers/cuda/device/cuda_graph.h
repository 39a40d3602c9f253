// Recordings of a CUDA device: work that was captured from its streams as a CUDA graph. Private to
// the device.
//
// To enqueue a kernel costs the CPU some microseconds. The kernels of small batches take no longer
// than that, so the GPU would wait for the CPU. A graph is enqueued by one call, however many
// kernels it has.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// The work that `enqueue` enqueues on `stream`, and on streams that are forked from it and joined
// to it by events. Errors: those of `enqueue`, or INTERNAL; both leave the device usable.
absl::StatusOr<std::unique_ptr<Recording>> CaptureGraph(cudaStream_t stream,
                                                        absl::FunctionRef<absl::Status()> enqueue);

// Enqueues a recording that CaptureGraph() made.
absl::Status LaunchGraph(const Recording& recording, cudaStream_t stream);

}  // namespace neap
