#include "neap/layers/cuda/device/from_nchw.h"

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::cuda {

cudaError_t FromNchw(const float* nchw, const TensorSpec& spec, std::byte* stored,
                     cudaStream_t stream) {
  const kernels::Array to = {stored, ElementOf(spec.dtype)};
  if (spec.layout == Layout::kChannelsLast && spec.shape.spatial_axes() > 0)
    return kernels::ChannelsLast(ChannelShapeOf(spec), nchw, to, stream);
  if (to.type != kernels::Element::kFp32) return kernels::Narrow(nchw, to, spec.elements(), stream);
  return cudaMemcpyAsync(stored, nchw, static_cast<size_t>(spec.size_bytes()), cudaMemcpyDefault,
                         stream);
}

}  // namespace neap::cuda
