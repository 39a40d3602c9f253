// Activations and their gradients, element by element (layers/activation.h).
//
// Gradient(value, dy) gets y, or x where backward reads that. Comparisons let a NaN pass, and
// exponentials of -|x| do not overflow. Functions that can take part in a norm's pass end
// their gradients with no product or with __fmul_rn, which the compiler does not contract with the
// sum that follows; of two products in a sum, fmaf says which one is contracted.
//
// Functions with exponentials are those of tensors of type T (tensor_math.cuh). Fused kernels take
// the same ones.
#pragma once

#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/tensor_math.cuh"

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
template <typename T>
struct SigmoidFunction {
  __device__ float Value(float x) const { return Logistic<T>(x).value; }
  __device__ float Gradient(float y, float dy) const { return dy * (1.0F - y) * y; }
};
template <typename T>
struct TanhFunction {
  __device__ float Value(float x) const { return TanhOf<T>(x); }
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
template <typename T>
struct SiluFunction {
  __device__ float Value(float x) const { return x * Logistic<T>(x).value; }
  __device__ float Gradient(float x, float dy) const {
    const Logistic<T> s(x);
    return __fmul_rn(dy, fmaf(x, s.slope, s.value));
  }
};
template <typename T>
struct GeluFunction {
  __device__ float Value(float x) const { return x * Normal<T>(x).value; }
  __device__ float Gradient(float x, float dy) const {
    const Normal<T> p(x);
    return __fmul_rn(dy, fmaf(x, p.slope, p.value));
  }
};
// (1 + tanh(u)) / 2 is the sigmoid of 2 u.
template <typename T>
struct TanhGeluFunction {
  static constexpr float kTwice = 1.59576912F;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715F * kTwice;
  static constexpr float kMaxSquare = 1e4F;  // the sigmoid is flat there; larger ones may overflow
  __device__ float Square(float x) const { return fminf(x * x, kMaxSquare); }
  __device__ float Argument(float x, float square) const {
    return x * fmaf(square, kCubic, kTwice);
  }
  __device__ float Value(float x) const { return x * Logistic<T>(Argument(x, Square(x))).value; }
  __device__ float Gradient(float x, float dy) const {
    const float square = Square(x);
    const Logistic<T> p(Argument(x, square));
    return __fmul_rn(dy, fmaf(x * p.slope, fmaf(square, 3.0F * kCubic, kTwice), p.value));
  }
};
template <typename T>
struct EluFunction {
  float alpha = 1;
  __device__ float Value(float x) const { return x > 0.0F ? x : alpha * ExpMinusOne<T>(x); }
  __device__ float Gradient(float x, float dy) const {
    return x > 0.0F ? dy : __fmul_rn(dy, alpha * Decay<T>(x));
  }
};
template <typename T>
struct SoftplusFunction {
  float beta = 1, threshold = 0;
  __device__ float Value(float x) const {
    const float t = __fmul_rn(beta, x), above = t > 0.0F ? t : 0.0F;
    return t > threshold ? x : (above + LogOnePlus<T>(Decay<T>(t))) / beta;
  }
  __device__ float Gradient(float x, float dy) const {
    const float t = __fmul_rn(beta, x);
    return t > threshold ? dy : __fmul_rn(dy, Logistic<T>(t).value);
  }
};
template <typename T>
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
    const Gate gate(Decay<T>(x), x < 0.0F);
    return x * Quotient<T>(gate.numerator, gate.denominator);
  }
  __device__ float Gradient(float x, float dy) const {
    const Logistic<T> s(x);
    const Gate gate(s.e, x < 0.0F);
    const float t = Quotient<T>(gate.numerator, gate.denominator);
    const float rest = Quotient<T>(gate.complement, gate.denominator);
    return __fmul_rn(dy, t + x * s.value * rest * (1.0F + t));
  }
};

}  // namespace neap::kernels
