// For builds without CUDA or without NCCL's header.
#include "neap/layers/collectives/nccl_ranks.h"

#include "neap/layers/collectives/torchrun_ranks.h"

namespace neap {
namespace {

absl::Status WithoutNccl() {
  return absl::UnimplementedError(
      "this neap was built without NCCL, which sums over GPUs; build it where nccl.h is installed "
      "(Debian package libnccl-dev, or scripts/setup.sh --pypi-cuda)");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> JoinByNccl(CudaDevice& /*device*/,
                                                         std::unique_ptr<TextExchange> /*texts*/,
                                                         std::chrono::milliseconds /*timeout*/) {
  return WithoutNccl();
}
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> JoinByNccl(
    absl::Span<CudaDevice* const> /*devices*/, std::chrono::milliseconds /*timeout*/) {
  return WithoutNccl();
}
absl::StatusOr<std::unique_ptr<Membership>> StartTorchrunRank(
    std::chrono::milliseconds /*timeout*/) {
  return WithoutNccl();
}

}  // namespace neap
