// Moves channels behind pixels, and rounds to the stored type.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/elements.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

// A thread writes the channels of a pixel, so that its neighbours read those of a channel together.
template <typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    ChannelsLastKernel(Divider<Index> inner, size_t channels, Index pixels,
                       const float* __restrict__ from, T* __restrict__ to) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= pixels) return;
  Index pixel = 0;
  const size_t image = inner.Split(i, pixel), stride = inner.divisor;
  const float* const source = from + image * channels * stride + pixel;
  T* const stored = to + size_t{i} * channels;
  for (size_t c = 0; c < channels; ++c) stored[c] = RoundTo<T>(source[c * stride]);
}

}  // namespace

cudaError_t ChannelsLast(const ChannelShape& shape, const float* from, Array to,
                         cudaStream_t stream) {
  const int64_t pixels = shape.outer * shape.inner;
  if (pixels == 0) return cudaSuccess;
  return WithElement(
      [&]<typename T>() {
        const auto launch = [&]<typename Index>() {
          ChannelsLastKernel<<<BlocksOf(pixels), kThreads, 0, stream>>>(
              Divider<Index>(shape.inner), static_cast<size_t>(shape.channels),
              static_cast<Index>(pixels), from, As<T>(to));
        };
        Fits32(pixels) ? launch.template operator()<uint32_t>()
                       : launch.template operator()<uint64_t>();
        return cudaGetLastError();
      },
      to);
}

}  // namespace neap::kernels
