// CUDA's fp16 on the host.
#pragma once

#include <cuda_runtime.h>

#include "neap/core/base/float16.h"

struct __half : neap::Fp16 {
  using neap::Fp16::Fp16;
};
struct __half2 {
  __half x, y;
};
inline float __half2float(__half h) { return static_cast<float>(h); }
inline __half __float2half_rn(float f) { return __half(f); }
inline __half __float2half(float f) { return __half(f); }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half __ushort_as_half(unsigned short bits) { return std::bit_cast<__half>(bits); }
inline unsigned short __half_as_ushort(__half h) { return std::bit_cast<unsigned short>(h); }
