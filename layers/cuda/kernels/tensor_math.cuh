// Functions with exponentials, as accurate as tensors of type T can tell.
//
// Those of fp32 take CUDA's functions. In passes over tensors of 16 bits these, and divisions,
// would take longer than the memory does, so results that are rounded to 16 bits are made of single
// instructions of the GPU for 2^x, 1 / x and log2(x), and of polynomials. Their relative errors are
// below 4e-6, under a hundredth of fp16's last place; in the tail of a normal distribution beyond
// 6, where fp16 has no results, below 3e-5, which is a hundredth of bf16's.
//
//   Decay<T>(x)        exp(-|x|)
//   Quotient<T>(a, b)  a / b, b and 1 / b being normal numbers
//   Logistic<T>(x)     1 / (1 + exp(-x)), and its derivative
//   Normal<T>(x)       the standard normal distribution function, and its derivative
//
// The instructions make 0 of results below 2^-126. Exponentials are scaled by 2^24 where they are
// made, so that what bf16 has below that stays.
#pragma once

#include <cuda_runtime.h>

namespace neap::kernels {

template <typename T>
inline constexpr bool kIs16Bit = sizeof(T) == 2;

inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kScaleBits = 24.0F, kUnscale = 0x1p-24F;

// Without `volatile`, what a thread computes twice is computed once.
__device__ __forceinline__ float FastExp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float FastLog2(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float FastReciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

template <typename T>
__device__ __forceinline__ float Decay(float x) {
  if constexpr (kIs16Bit<T>) {
    return FastExp2(fmaf(fabsf(x), -kLog2E, kScaleBits)) * kUnscale;
  } else {
    return expf(-fabsf(x));
  }
}

template <typename T>
__device__ __forceinline__ float Quotient(float a, float b) {
  if constexpr (kIs16Bit<T>) {
    return a * FastReciprocal(b);
  } else {
    return a / b;
  }
}

template <typename T>
struct Logistic {
  __device__ __forceinline__ explicit Logistic(float x) {
    e = Decay<T>(x);
    const float above = x < 0.0F ? e : 1.0F, below = 1.0F + e;
    value = Quotient<T>(above, below);
    if constexpr (kIs16Bit<T>) {
      slope = Quotient<T>(Quotient<T>(e, below), below);  // by the same reciprocal
    } else {
      slope = e / (below * below);
    }
  }
  float e, value, slope;  // e is Decay(x)
};

template <typename T>
struct Normal {
  static constexpr float kPeak = 0.39894228F;  // 1 / sqrt(2 pi)
  __device__ __forceinline__ explicit Normal(float x) {
    if constexpr (kIs16Bit<T>) {
      // As Abramowitz and Stegun 7.1.26, with an error relative to the tail: at -|x| the value is
      // exp(-x^2 / 2) times a polynomial in t, which is fitted to both.
      const float e = FastExp2(fmaf(x * x, -0.5F * kLog2E, kScaleBits));
      const float t = FastReciprocal(fmaf(fabsf(x), 0.302F, 1.0F));
      float p = -0.0801914806F * kUnscale;
      p = fmaf(p, t, 0.219441803F * kUnscale);
      p = fmaf(p, t, -0.0218361256F * kUnscale);
      p = fmaf(p, t, 0.147967347F * kUnscale);
      p = fmaf(p, t, 0.113663386F * kUnscale);
      p = fmaf(p, t, 0.120954155F * kUnscale) * t;
      value = x < 0.0F ? e * p : fmaf(-e, p, 1.0F);
      slope = e * (kPeak * kUnscale);
    } else {
      value = 0.5F * erfcf(x * -0.70710678F);
      slope = kPeak * expf(-0.5F * x * x);
    }
  }
  float value, slope;
};

// exp(x) - 1 of x <= 0.
template <typename T>
__device__ __forceinline__ float ExpMinusOne(float x) {
  if constexpr (kIs16Bit<T>) {
    float p = fmaf(x, 1.0F / 120, 1.0F / 24);
    p = fmaf(p, x, 1.0F / 6);
    p = fmaf(p, x, 0.5F);
    p = fmaf(p, x, 1.0F);
    return x > -0.25F ? p * x : Decay<T>(x) - 1.0F;
  } else {
    return expm1f(x);
  }
}

// log(1 + x) of 0 <= x <= 1.
template <typename T>
__device__ __forceinline__ float LogOnePlus(float x) {
  if constexpr (kIs16Bit<T>) {
    float p = fmaf(x, -1.0F / 6, 0.2F);
    p = fmaf(p, x, -0.25F);
    p = fmaf(p, x, 1.0F / 3);
    p = fmaf(p, x, -0.5F);
    p = fmaf(p, x, 1.0F);
    return x < 0.125F ? p * x : FastLog2(1.0F + x) * (1.0F / kLog2E);
  } else {
    return log1pf(x);
  }
}

template <typename T>
__device__ __forceinline__ float TanhOf(float x) {
  if constexpr (kIs16Bit<T>) {
    const float square = x * x, e = Decay<T>(2.0F * x);
    float p = fmaf(square, -17.0F / 315, 2.0F / 15);
    p = fmaf(p, square, -1.0F / 3);
    p = fmaf(p, square, 1.0F);
    return fabsf(x) < 0.25F ? p * x : copysignf(Quotient<T>(1.0F - e, 1.0F + e), x);
  } else {
    return tanhf(x);
  }
}

}  // namespace neap::kernels
