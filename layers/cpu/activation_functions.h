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

}  // namespace neap::cpu
