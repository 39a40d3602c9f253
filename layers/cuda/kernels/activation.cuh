// Activations and their gradients, element by element (layers/activation.h).
//
// Gradient(value, dy) gets y, or x where backward reads that. Comparisons let a NaN pass. The
// functions that take part in a batch norm's pass (Clip, HardSwish, Silu) end their gradients with
// no product or with __fmul_rn, which the compiler does not contract with the sum that follows.
#pragma once

#include "neap/layers/cuda/kernels/device_math.cuh"

namespace neap::kernels {

struct ReluFunction {
  __device__ float Value(float x) const { return ReluOf(x); }
  __device__ float Gradient(float y, float dy) const { return ReluGradient(y, dy); }
};
struct LeakyReluFunction {
  float slope = 0;
  __device__ float Value(float x) const { return x > 0.0F ? x : x * slope; }
  __device__ float Gradient(float y, float dy) const { return y > 0.0F ? dy : dy * slope; }
};
struct ClipFunction {
  float low = 0, high = 0;
  __device__ float Value(float x) const {
    const float raised = x <= low ? low : x;
    return raised >= high ? high : raised;
  }
  __device__ float Gradient(float y, float dy) const { return y <= low || y >= high ? 0.0F : dy; }
};
struct SigmoidFunction {
  __device__ float Value(float x) const { return 1.0F / (1.0F + expf(-x)); }
  __device__ float Gradient(float y, float dy) const { return dy * (1.0F - y) * y; }
};
struct TanhFunction {
  __device__ float Value(float x) const { return tanhf(x); }
  __device__ float Gradient(float y, float dy) const { return dy * (1.0F - y * y); }
};
struct HardSigmoidFunction {
  __device__ float Value(float x) const {
    if (x <= -3.0F) return 0.0F;
    return x >= 3.0F ? 1.0F : (x + 3.0F) * (1.0F / 6.0F);
  }
  __device__ float Gradient(float x, float dy) const {
    return x <= -3.0F || x >= 3.0F ? 0.0F : dy * (1.0F / 6.0F);
  }
};
struct HardSwishFunction {
  __device__ float Value(float x) const {
    if (x <= -3.0F) return 0.0F;
    return x >= 3.0F ? x : x * (x + 3.0F) * (1.0F / 6.0F);
  }
  __device__ float Gradient(float x, float dy) const {
    if (x <= -3.0F) return 0.0F;
    return x >= 3.0F ? dy : __fmul_rn(dy, x * (1.0F / 3.0F) + 0.5F);
  }
};
struct SiluFunction {
  __device__ float Value(float x) const { return x / (1.0F + expf(-x)); }
  __device__ float Gradient(float x, float dy) const {
    const float s = 1.0F / (1.0F + expf(-x));
    return __fmul_rn(dy * s, 1.0F + x * (1.0F - s));
  }
};

}  // namespace neap::kernels
