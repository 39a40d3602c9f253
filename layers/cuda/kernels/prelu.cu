// Parametric ReLU (layers/prelu.h): a map forward; backward, a reduction that also writes dx.
#include <algorithm>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/prelu.h"

namespace neap::kernels {
namespace {

template <typename T>
struct PreluOp {
  const T* x;
  const float* slopes;
  T* y;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c) const {
    return PerChannel<kLast, kVec>(slopes, c);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Vec<kVec>& slope, const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = v.v[k] > 0.0F ? v.v[k] : v.v[k] * slope.v[k];
    Write<kVec>(y, i, v);
  }
};

// Computes dx, and sums the gradient of the slope.
template <typename T>
struct PreluGradientOp {
  using Total = Sums<1>;
  const T* x;
  const T* dy;
  const float* slopes;
  T* dx;
  template <int kVec>
  using Registers = Two<Packed<T, kVec>>;
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c, size_t) const {
    return PerChannel<kLast, kVec>(slopes, c);
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(x, i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Accumulate(const Vec<kVec>& slope, const Registers<kVec>& in, size_t i,
                             Accumulators<1, kVec>& sums) const {
    const Vec<kVec> values = Unpack(in.a);
    Vec<kVec> v = Unpack(in.b);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if (values.v[k] > 0.0F) continue;
      sums.v[0].v[k] += values.v[k] * v.v[k];
      v.v[k] *= slope.v[k];
    }
    Write<kVec>(dx, i, v);
  }
};

// The elements of a launch, of a tensor with one slope that has too many for one: a multiple of all
// widths of vectors.
constexpr int64_t kMaxPiece = int64_t{1} << 30;

// Calls run(piece, first), where `first` is the first element of the piece, in order for as many
// pieces as the tensor needs, which is one unless all of its elements share a slope.
template <typename Run>
cudaError_t ForEachPiece(const ChannelShape& s, const Run& run) {
  const int64_t elements = s.outer * s.inner;
  if (s.channels > 1 || Fits32(elements)) return run(s, 0);
  for (int64_t first = 0; first < elements; first += kMaxPiece) {
    const ChannelShape piece = {.inner = std::min(kMaxPiece, elements - first)};
    const cudaError_t error = run(piece, first);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

int64_t PreluScratchBytes(const ChannelShape& s, Element type) {
  int64_t bytes = 0;
  ForEachPiece(s, [&](const ChannelShape& piece, int64_t) {
    bytes = std::max(bytes, ChannelScratchBytes(piece, type));
    return cudaSuccess;
  });
  return bytes;
}

cudaError_t Prelu(const ChannelShape& s, ConstArray x, const float* slopes, Array y,
                  cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ForEachPiece(s, [&](const ChannelShape& piece, int64_t first) {
      const PreluOp<T> op = {As<T>(x) + first, slopes, As<T>(y) + first};
      return MapChannels<T>(piece, AllAligned16(x, slopes, y), op, stream);
    });
  };
  return WithElement(run, x, y);
}

cudaError_t PreluBackward(const ChannelShape& s, ConstArray x, ConstArray dy, const float* slopes,
                          Array dx, float* dslopes, bool add, const ReductionMemory& memory,
                          cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ForEachPiece(s, [&](const ChannelShape& piece, int64_t first) {
      const PreluGradientOp<T> op = {As<T>(x) + first, As<T>(dy) + first, slopes,
                                     As<T>(dx) + first};
      return Reduce<T>(piece, AllAligned16(x, dy, slopes, dx), op,
                       StoreSum{dslopes, add || first > 0}, memory, stream);
    });
  };
  return WithElement(run, x, dy, dx);
}

}  // namespace neap::kernels
