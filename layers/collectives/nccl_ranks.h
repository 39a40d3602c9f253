// Sums over ranks on GPUs, by NCCL.
//
// NCCL only sums. The ranks, and how they find each other, are known from what has started them:
// threads of one process, MPI or torchrun (layers/collectives/membership.h), which also carry the
// texts of Exchange().
//
//   ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Open(member->local_rank()));
//   ASSIGN_OR_RETURN(std::unique_ptr<TextExchange> texts, member->Texts(*device));
//   ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator,
//                    JoinByNccl(*device, std::move(texts), std::chrono::seconds(60)));
//
// The tensors of a bucket are one group of NCCL's, without a copy into a buffer. The order in which
// NCCL adds depends on the number of ranks, the bucket and how the GPUs are connected, not on the
// run. The first sum connects the GPUs, and blocks until all ranks have called it. A
// thread watches: when another rank fails, or no sum ends within the timeout, it ends what NCCL has
// on the GPU and lets the device fail. NCCL allocates memory beside the arena, most of it with the
// first sum; it is counted with the libraries' (CudaDevice::LibraryBytes()).
//
// *Errors*: NOT_FOUND if NCCL is not installed; UNIMPLEMENTED if neap was built without it;
// UNAVAILABLE if another rank has failed or does not answer.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/device/communicator.h"
#include "neap/layers/cuda/cuda_device.h"

namespace neap {

// All ranks must call it, at the same time. *Ownership*: the communicator borrows the device.
absl::StatusOr<std::unique_ptr<Communicator>> JoinByNccl(CudaDevice& device,
                                                         std::unique_ptr<TextExchange> texts,
                                                         std::chrono::milliseconds timeout);

// The communicators of all ranks, on devices of this process, by rank.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> JoinByNccl(
    absl::Span<CudaDevice* const> devices,
    std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace neap
