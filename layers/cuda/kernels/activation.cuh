// Activations and their gradients, element by element (layers/activation.h).
//
// Gradient(value, dy) gets y, or x where backward reads that. Comparisons let a NaN pass, and
// exponentials of -|x| do not overflow. Functions that can take part in a norm's pass end
// their gradients with no product or with __fmul_rn, which the compiler does not contract with the
// sum that follows; of two products in a sum, fmaf says which one is contracted.
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
  __device__ float Gradient(float y, float dy) const {
    return y > 0.0F ? dy : __fmul_rn(dy, slope);
  }
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

// The sigmoid of x and its derivative.
struct Logistic {
  __device__ explicit Logistic(float x) {
    e = expf(-fabsf(x));
    value = (x < 0.0F ? e : 1.0F) / (1.0F + e);
    slope = e / ((1.0F + e) * (1.0F + e));
  }
  float e, value, slope;
};
struct GeluFunction {
  __device__ float Phi(float x) const { return 0.5F * erfcf(x * -0.70710678F); }
  __device__ float Value(float x) const { return x * Phi(x); }
  __device__ float Gradient(float x, float dy) const {
    return __fmul_rn(dy, fmaf(x, 0.39894228F * expf(-0.5F * x * x), Phi(x)));
  }
};
// (1 + tanh(u)) / 2 is the sigmoid of 2 u.
struct TanhGeluFunction {
  static constexpr float kTwice = 1.59576912F;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715F;
  __device__ float Argument(float x) const { return kTwice * x * (1.0F + kCubic * x * x); }
  __device__ float Value(float x) const { return x * Logistic(Argument(x)).value; }
  __device__ float Gradient(float x, float dy) const {
    const Logistic p(Argument(x));
    // The argument's derivative may overflow where the sigmoid is flat.
    const float inner = p.e > 0.0F ? kTwice * (1.0F + 3.0F * kCubic * x * x) : 1.0F;
    return __fmul_rn(dy, p.value + x * p.slope * inner);
  }
};
struct EluFunction {
  float alpha = 1;
  __device__ float Value(float x) const { return x > 0.0F ? x : alpha * expm1f(x); }
  __device__ float Gradient(float x, float dy) const {
    return x > 0.0F ? dy : __fmul_rn(dy, alpha * expf(x));
  }
};
struct SoftplusFunction {
  float beta = 1, threshold = 0;
  __device__ float Value(float x) const {
    const float t = __fmul_rn(beta, x), above = t > 0.0F ? t : 0.0F;
    return t > threshold ? x : (above + log1pf(expf(-fabsf(t)))) / beta;
  }
  __device__ float Gradient(float x, float dy) const {
    const float t = __fmul_rn(beta, x);
    return t > threshold ? dy : __fmul_rn(dy, Logistic(t).value);
  }
};
struct MishFunction {
  // t = tanh(log(1 + exp(x))) is numerator / denominator, and 1 - t is complement / denominator.
  // All are polynomials in e = exp(-|x|).
  struct Gate {
    __device__ Gate(float e, bool is_negative) {
      numerator = is_negative ? e * (e + 2.0F) : 1.0F + 2.0F * e;
      complement = is_negative ? 2.0F : 2.0F * e * e;
      denominator = __fadd_rn(numerator, complement);
    }
    float numerator, complement, denominator;
  };
  __device__ float Value(float x) const {
    const Gate gate(expf(-fabsf(x)), x < 0.0F);
    return x * (gate.numerator / gate.denominator);
  }
  __device__ float Gradient(float x, float dy) const {
    const Logistic s(x);
    const Gate gate(s.e, x < 0.0F);
    const float t = gate.numerator / gate.denominator;
    return __fmul_rn(dy, t + x * s.value * (gate.complement / gate.denominator) * (1.0F + t));
  }
};

}  // namespace neap::kernels
