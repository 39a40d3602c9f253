// The activations that have loops of neap's own on the CPU, and their gradients, element by element
// (layers/activation.h): oneDNN's turn NaN into 0, which hides a diverged network, and fused layers
// compute the same bits as these. Sigmoid and Tanh are oneDNN's.
//
// Gradient(value, dy) gets y or x, as the layer's table says. Files that include this are compiled
// without contraction of products and sums, on which the bits depend (CMakeLists.txt).
#pragma once

#include <cmath>

#include "neap/layers/activation.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {

// A base for functions of layer T without parameters. The DType is that of the tensors.
template <typename T>
struct FunctionOf {
  using Of = T;
  FunctionOf(const T&, DType) {}
};

struct ReluFunction : FunctionOf<Relu> {
  using FunctionOf::FunctionOf;
  float Value(float x) const { return ReluOf(x); }
  float Gradient(float y, float dy) const { return y <= 0 ? 0 : dy; }
};

struct LeakyReluFunction {
  using Of = LeakyRelu;
  LeakyReluFunction(const LeakyRelu& layer, DType) : slope(layer.negative_slope) {}
  float Value(float x) const { return x > 0 ? x : x * slope; }
  float Gradient(float y, float dy) const { return y > 0 ? dy : dy * slope; }
  float slope;
};

// The gradient at y is also that at x.
struct ClipFunction {
  using Of = Clip;
  ClipFunction(const Clip& layer, DType dtype) : bounds(layer.RoundedTo(dtype)) {}
  float Value(float x) const {
    const float raised = x <= bounds.low ? bounds.low : x;
    return raised >= bounds.high ? bounds.high : raised;
  }
  float Gradient(float y, float dy) const {
    const float below = y >= bounds.high ? 0 : dy;
    return y <= bounds.low ? 0 : below;
  }
  Clip bounds;
};

struct HardSigmoidFunction : FunctionOf<HardSigmoid> {
  using FunctionOf::FunctionOf;
  float Value(float x) const {
    const float raised = x <= -3 ? 0 : (x + 3) * kSixth;
    return x >= 3 ? 1 : raised;
  }
  float Gradient(float x, float dy) const {
    const float below = x >= 3 ? 0 : dy * kSixth;
    return x <= -3 ? 0 : below;
  }
  static constexpr float kSixth = 1.0F / 6.0F;
};

struct HardSwishFunction : FunctionOf<HardSwish> {
  using FunctionOf::FunctionOf;
  float Value(float x) const {
    const float raised = x <= -3 ? 0 : x * (x + 3) * (1.0F / 6.0F);
    return x >= 3 ? x : raised;
  }
  float Gradient(float x, float dy) const {
    const float below = x >= 3 ? dy : dy * (x * (1.0F / 3.0F) + 0.5F);
    return x <= -3 ? 0 : below;
  }
};

struct SiluFunction : FunctionOf<Silu> {
  using FunctionOf::FunctionOf;
  float Value(float x) const { return x / (1 + std::exp(-x)); }
  float Gradient(float x, float dy) const {
    const float s = 1 / (1 + std::exp(-x));
    return dy * s * (1 + x * (1 - s));
  }
};

// The sigmoid of x and its derivative, from an exponential that does not overflow.
struct Logistic {
  explicit Logistic(float x)
      : e(std::exp(-std::abs(x))),
        value((x < 0 ? e : 1) / (1 + e)),
        slope(e / ((1 + e) * (1 + e))) {}
  float e, value, slope;
};

struct GeluFunction {
  using Of = Gelu;
  GeluFunction(const Gelu& layer, DType)
      : is_tanh(layer.approximation == Gelu::Approximation::kTanh) {}
  float Value(float x) const { return x * (is_tanh ? Logistic(Argument(x)).value : Phi(x)); }
  float Gradient(float x, float dy) const { return dy * (is_tanh ? TanhSlope(x) : Slope(x)); }

  static float Phi(float x) { return 0.5F * std::erfc(x * -0.70710678F); }
  static float Slope(float x) { return Phi(x) + x * (0.39894228F * std::exp(-0.5F * x * x)); }
  // (1 + tanh(u)) / 2 is the sigmoid of 2 u.
  static float Argument(float x) { return kTwice * x * (1 + kCubic * x * x); }
  static float TanhSlope(float x) {
    const Logistic p(Argument(x));
    // The argument's derivative may overflow where the sigmoid is flat.
    const float inner = p.e > 0 ? kTwice * (1 + 3 * kCubic * x * x) : 1;
    return p.value + x * p.slope * inner;
  }
  static constexpr float kTwice = 1.59576912F;  // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715F;
  bool is_tanh;
};

struct EluFunction {
  using Of = Elu;
  EluFunction(const Elu& layer, DType) : alpha(layer.alpha) {}
  float Value(float x) const { return x > 0 ? x : alpha * std::expm1(x); }
  float Gradient(float x, float dy) const { return x > 0 ? dy : dy * (alpha * std::exp(x)); }
  float alpha;
};

struct SoftplusFunction {
  using Of = Softplus;
  SoftplusFunction(const Softplus& layer, DType) : beta(layer.beta), threshold(layer.threshold) {}
  float Value(float x) const {
    const float t = beta * x;
    const float above = t > 0 ? t : 0;
    return t > threshold ? x : (above + std::log1p(std::exp(-std::abs(t)))) / beta;
  }
  float Gradient(float x, float dy) const {
    const float t = beta * x;
    return t > threshold ? dy : dy * Logistic(t).value;
  }
  float beta, threshold;
};

struct MishFunction : FunctionOf<Mish> {
  using FunctionOf::FunctionOf;
  float Value(float x) const {
    const Gate t(std::exp(-std::abs(x)), x < 0);
    return x * (t.numerator / t.denominator);
  }
  float Gradient(float x, float dy) const {
    const Logistic s(x);
    const Gate gate(s.e, x < 0);
    const float t = gate.numerator / gate.denominator;
    return dy * (t + x * s.value * (gate.complement / gate.denominator) * (1 + t));
  }
  // t = tanh(log(1 + exp(x))) is numerator / denominator, and 1 - t is complement / denominator.
  // All are polynomials in e = exp(-|x|).
  struct Gate {
    Gate(float e, bool is_negative)
        : numerator(is_negative ? e * (e + 2) : 1 + 2 * e),
          complement(is_negative ? 2 : 2 * e * e),
          denominator(numerator + complement) {}
    float numerator, complement, denominator;
  };
};

}  // namespace neap::cpu
