// Elements of fp32, fp16 and bf16: 16-byte accesses to them, their conversion from and to float,
// in which kernels compute, and the choice of a kernel by element type.
//
//   template <typename T>  // float, __half or __nv_bfloat16
//   __global__ void Twice(const T* x, T* y) {
//     Vec<kWide<T>> v = Unpack(Read<kWide<T>>(x, threadIdx.x));
//     for (float& f : v.v) f *= 2;
//     Write<kWide<T>>(y, threadIdx.x, v);  // rounds to nearest even
//   }
//   return WithElement([&]<typename T>() { Twice<<<1, 32>>>(As<T>(x), As<T>(y)); ... }, x, y);
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "neap/layers/cuda/kernels/array.h"

namespace neap::kernels {

// The number of elements in the widest access.
template <typename T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

constexpr size_t AlignmentOf(size_t bytes) { return bytes < 16 ? bytes : 16; }

// Values in registers.
template <int kVec>
struct alignas(AlignmentOf(sizeof(float) * kVec)) Vec {
  float v[kVec];
};

// kVec elements as they are in memory. Loads in flight stay packed, which halves their registers.
template <typename T, int kVec>
struct alignas(AlignmentOf(sizeof(T) * kVec)) Packed {
  using Word = std::conditional_t<sizeof(T) * kVec % 4 == 0, uint32_t, uint16_t>;
  static constexpr int kWords = static_cast<int>(sizeof(T) * kVec / sizeof(Word));
  Word words[kWords];
};

__device__ __forceinline__ float ToFloat(float f) { return f; }
__device__ __forceinline__ float ToFloat(__half f) { return __half2float(f); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 f) { return __bfloat162float(f); }

template <typename T>
__device__ __forceinline__ T RoundTo(float f) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(f);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(f);
  } else {
    return f;
  }
}

// The value that a T in memory would have. Fused kernels round what they do not store.
template <typename T>
__device__ __forceinline__ float Rounded(float f) {
  return ToFloat(RoundTo<T>(f));
}

// The two elements of a word, the first in the lower half.
template <typename T>
__device__ __forceinline__ float2 UnpackTwo(uint32_t word) {
  if constexpr (std::is_same_v<T, __half>) {
    return {__half2float(__ushort_as_half(static_cast<unsigned short>(word))),
            __half2float(__ushort_as_half(static_cast<unsigned short>(word >> 16)))};
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000U)};
  }
}
template <typename T>
__device__ __forceinline__ uint32_t PackTwo(float first, float second) {
  uint32_t word;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 two = __floats2half2_rn(first, second);
    memcpy(&word, &two, sizeof(word));
  } else {
    const __nv_bfloat162 two = __floats2bfloat162_rn(first, second);
    memcpy(&word, &two, sizeof(word));
  }
  return word;
}

template <typename T, int kVec>
__device__ __forceinline__ Vec<kVec> Unpack(const Packed<T, kVec>& packed) {
  Vec<kVec> v;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = __uint_as_float(packed.words[k]);
  } else if constexpr (kVec == 1) {
    v.v[0] = UnpackTwo<T>(packed.words[0]).x;
  } else {
#pragma unroll
    for (int k = 0; k < kVec / 2; ++k) {
      const float2 two = UnpackTwo<T>(packed.words[k]);
      v.v[2 * k] = two.x;
      v.v[2 * k + 1] = two.y;
    }
  }
  return v;
}

template <typename T, int kVec>
__device__ __forceinline__ Packed<T, kVec> Pack(const Vec<kVec>& v) {
  Packed<T, kVec> packed;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) packed.words[k] = __float_as_uint(v.v[k]);
  } else if constexpr (kVec == 1) {
    packed.words[0] = static_cast<uint16_t>(PackTwo<T>(v.v[0], 0.0F));
  } else {
#pragma unroll
    for (int k = 0; k < kVec / 2; ++k) packed.words[k] = PackTwo<T>(v.v[2 * k], v.v[2 * k + 1]);
  }
  return packed;
}

// The i-th vector of an array.
template <int kVec, typename T>
__device__ __forceinline__ Packed<T, kVec> Read(const T* p, size_t i) {
  return reinterpret_cast<const Packed<T, kVec>*>(p)[i];
}
template <int kVec, typename T>
__device__ __forceinline__ void Write(T* p, size_t i, const Packed<T, kVec>& packed) {
  reinterpret_cast<Packed<T, kVec>*>(p)[i] = packed;
}
template <int kVec, typename T>
__device__ __forceinline__ void Write(T* p, size_t i, const Vec<kVec>& v) {
  Write<kVec>(p, i, Pack<T>(v));
}
// Writes the vector, or adds it, as if it had been stored before, to the one that is there.
template <int kVec, typename T>
__device__ __forceinline__ void WriteOrAdd(T* p, size_t i, Vec<kVec> v, bool adds) {
  if (adds) {
    const Vec<kVec> old = Unpack(Read<kVec>(p, i));
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = __fadd_rn(Rounded<T>(v.v[k]), old.v[k]);
  }
  Write<kVec>(p, i, v);
}
// The same for arrays that are always fp32.
template <int kVec>
__device__ __forceinline__ Vec<kVec> ReadFloats(const float* p, size_t i) {
  return reinterpret_cast<const Vec<kVec>*>(p)[i];
}

template <typename T>
__host__ __device__ const T* As(const ConstArray& array) {
  return static_cast<const T*>(array.data);
}
template <typename T>
__host__ __device__ T* As(const Array& array) {
  return static_cast<T*>(array.data);
}

inline bool Aligned16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
inline bool Aligned16(const ConstArray& array) { return Aligned16(array.data); }
template <typename... Pointers>
bool AllAligned16(const Pointers&... p) {
  return (Aligned16(p) && ...);
}

// Calls run.template operator()<T>() with the arrays' element type. All arrays have the same;
// those of optional operands may be null.
template <typename Run, typename... Arrays>
cudaError_t WithElement(const Run& run, const ConstArray& first, const Arrays&... others) {
  const auto agrees = [&](const ConstArray& array) {
    return array.data == nullptr || array.type == first.type;
  };
  if (!(agrees(others) && ...)) return cudaErrorInvalidValue;
  switch (first.type) {
    case Element::kFp32:
      return run.template operator()<float>();
    case Element::kFp16:
      return run.template operator()<__half>();
    case Element::kBf16:
      return run.template operator()<__nv_bfloat16>();
  }
  return cudaErrorInvalidValue;
}

// The same for kernels that only move elements: T is an unsigned integer of their size.
template <typename Run, typename... Arrays>
cudaError_t WithElementSize(const Run& run, const ConstArray& first, const Arrays&... others) {
  if (!((ConstArray(others).type == first.type) && ...)) return cudaErrorInvalidValue;
  return SizeOf(first.type) == 4 ? run.template operator()<uint32_t>()
                                 : run.template operator()<uint16_t>();
}

}  // namespace neap::kernels
