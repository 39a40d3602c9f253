// Common parts of the kernels: division by a constant through a multiplication, and maps over flat
// tensors with enough loads in flight to saturate the memory bus.
//
//   template <typename T>
//   struct Twice {  // an operation on vectors of kVec elements
//     const T* x;
//     T* y;
//     template <int kVec>
//     using Registers = Packed<T, kVec>;
//     template <int kVec>
//     __device__ Packed<T, kVec> Load(size_t i) const {
//       return Read<kVec>(x, i);
//     }
//     template <int kVec>
//     __device__ void Store(size_t i, const Packed<T, kVec>& in) const {
//       Vec<kVec> v = Unpack(in);
//       for (float& f : v.v) f *= 2;
//       Write<kVec>(y, i, v);
//     }
//   };
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "neap/layers/cuda/kernels/elements.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

inline constexpr int kThreads = 256;
inline constexpr int kUnroll = 4;  // independent loads per thread
// Kernels number vectors with 32 bits. Larger tensors take several launches.
inline constexpr int64_t kMaxLaunchVectors = int64_t{1} << 30;

// The comparison propagates NaN, as in PyTorch.
__device__ __forceinline__ float ReluOf(float x) { return x <= 0.0F ? 0.0F : x; }
__device__ __forceinline__ float ReluGradient(float y, float dy) { return y <= 0.0F ? 0.0F : dy; }

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Division by a fixed number. The 32-bit version uses Granlund and Montgomery's multiplication,
// which is exact for numerators below 2^31.
template <typename Index>
struct Divider;

template <>
struct Divider<uint32_t> {
  explicit Divider(int64_t d) : divisor(static_cast<uint32_t>(d)) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    multiplier = static_cast<uint32_t>((((uint64_t{1} << shift) - divisor) << 32) / divisor + 1);
  }
  __device__ __forceinline__ uint32_t Quotient(uint32_t n) const {
    return (__umulhi(n, multiplier) + n) >> shift;
  }
  __device__ __forceinline__ uint32_t Split(uint32_t n, uint32_t& remainder) const {
    const uint32_t q = Quotient(n);
    remainder = n - q * divisor;
    return q;
  }
  uint32_t divisor = 1;
  uint32_t multiplier = 1;
  uint32_t shift = 0;
};

template <>
struct Divider<uint64_t> {
  explicit Divider(int64_t d) : divisor(static_cast<uint64_t>(d)) {}
  __device__ __forceinline__ uint64_t Split(uint64_t n, uint64_t& remainder) const {
    const uint64_t q = n / divisor;
    remainder = n - q * divisor;
    return q;
  }
  uint64_t divisor = 1;
};

// Calls visit(0), visit(1), ..., visit(kCount - 1). The calls are not a loop, because the compiler
// copies a loop for each case of a switch inside it.
template <int kCount, typename Visit>
__device__ __forceinline__ void Repeat(const Visit& visit) {
  [&]<int... k>(std::integer_sequence<int, k...>) { (visit(k), ...); }
  (std::make_integer_sequence<int, kCount>());
}

// The vectors that a thread loads at once: fewer if the op has many operands.
template <typename Op>
constexpr int LoadsOf() {
  if constexpr (requires { Op::kLoads; }) {
    return Op::kLoads;
  } else {
    return kUnroll;
  }
}

template <typename Op, int kVec>
__global__ void __launch_bounds__(kThreads) MapKernel(Op op, size_t vectors) {
  const size_t first = static_cast<size_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
  typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const size_t i = first + static_cast<size_t>(u) * kThreads;
    if (i < vectors) loaded[u] = op.template Load<kVec>(i);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const size_t i = first + static_cast<size_t>(u) * kThreads;
    if (i < vectors) op.template Store<kVec>(i, loaded[u]);
  }
}

inline unsigned BlocksOf(int64_t threads) {
  return static_cast<unsigned>(CeilDiv(threads, kThreads));
}
inline unsigned MapBlocks(int64_t vectors) {
  return static_cast<unsigned>(CeilDiv(vectors, kThreads * kUnroll));
}

// Runs op over n elements of type T. `aligned`: every array of the op begins at a multiple of 16
// bytes.
template <typename T, typename Op>
cudaError_t Map(const Op& op, int64_t n, bool aligned, cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  if (n == 0) return cudaSuccess;
  if (aligned && n % kVec == 0) {
    MapKernel<Op, kVec>
        <<<MapBlocks(n / kVec), kThreads, 0, stream>>>(op, static_cast<size_t>(n / kVec));
  } else {
    MapKernel<Op, 1><<<MapBlocks(n), kThreads, 0, stream>>>(op, static_cast<size_t>(n));
  }
  return cudaGetLastError();
}

// y = function.Value(x) of every element.
template <typename Function, typename T>
struct FunctionOp {
  const T* x;
  T* y;
  Function function;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (float& f : v.v) f = function.Value(f);
    Write<kVec>(y, i, v);
  }
};

}  // namespace neap::kernels
