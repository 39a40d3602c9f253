// Attention in the place of cuDNN's: there is none, so neap's kernels run all of it.
#include "neap/layers/cuda/attention/cudnn_attention.h"

namespace neap {

absl::StatusOr<std::unique_ptr<CudnnAttention>> CudnnAttention::ForDevice(void*) {
  return std::unique_ptr<CudnnAttention>();
}
absl::StatusOr<std::unique_ptr<CudnnAttention>> CudnnAttention::ForDescribedDevice(
    std::string_view) {
  return absl::UnimplementedError("the emulation describes no GPU");
}

}  // namespace neap
