// Launchers of the kernels of norms that do not couple images: group norm and layer norm
// (layers/norm/group_norm.h, layers/norm/layer_norm.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

struct ImageNormOperands {
  ConstArray x;
  const float* gamma = nullptr;  // null, with beta, if the norm has no parameters
  const float* beta = nullptr;   // null if it has no bias
};
// One of each for every set of values that are normalised together.
struct ImageNormStatistics {
  float* mean = nullptr;
  float* invstd = nullptr;
};
struct ImageNormSums {
  float* dgamma = nullptr;                       // null, with dbeta, if the norm has no parameters
  float* dbeta = nullptr;                        // null if it has no bias
  bool adds_dgamma = false, adds_dbeta = false;  // to what is there
};

// group_norm.cu. There are fewer than 2^31 channels in all images, and positions. The scratch
// memory is GroupNormScratchBytes().
struct GroupNormShape {
  ChannelShape images;
  int64_t groups = 1;
};
int64_t GroupNormScratchBytes(const GroupNormShape& shape, Element type);
// Computes the statistics, which may be null, unless they are `given`. y may be x.
cudaError_t GroupNorm(const GroupNormShape& shape, const ImageNormOperands& in, float epsilon,
                      const ImageNormStatistics& statistics, bool given, Array y, void* scratch,
                      cudaStream_t stream);
// dx may be dy.
cudaError_t GroupNormBackward(const GroupNormShape& shape, const ImageNormOperands& in,
                              const ImageNormStatistics& statistics, ConstArray dy,
                              const ImageNormSums& sums, Array dx, void* scratch,
                              cudaStream_t stream);

// group_norm_activated.cu. The same with a Relu, LeakyRelu, Silu or Gelu behind it, of whose result
// dy is the gradient. Backward reads beta.
cudaError_t GroupNormActivated(const GroupNormShape& shape, const ImageNormOperands& in,
                               float epsilon, const ImageNormStatistics& statistics, bool given,
                               const Activation& activation, Array y, void* scratch,
                               cudaStream_t stream);
cudaError_t GroupNormActivatedBackward(const GroupNormShape& shape, const ImageNormOperands& in,
                                       const ImageNormStatistics& statistics,
                                       const Activation& activation, ConstArray dy,
                                       const ImageNormSums& sums, Array dx, void* scratch,
                                       cudaStream_t stream);

// layer_norm.cu. The same; a shape with `inner` = 1 has its channels last. The scratch memory of
// backward, if there are parameters, is LayerNormScratchBytes(). It adds `addend`, unless that is
// null, to dx as it would be stored.
int64_t LayerNormScratchBytes(const ChannelShape& shape, Element type);
cudaError_t LayerNorm(const ChannelShape& shape, const ImageNormOperands& in, float epsilon,
                      const ImageNormStatistics& statistics, bool given, Array y,
                      cudaStream_t stream);
cudaError_t LayerNormBackward(const ChannelShape& shape, const ImageNormOperands& in,
                              const ImageNormStatistics& statistics, ConstArray dy,
                              const ImageNormSums& sums, ConstArray addend, Array dx,
                              const ReductionMemory& memory, cudaStream_t stream);

}  // namespace neap::kernels
