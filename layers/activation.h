// Elementwise non-linearities. Values and gradients are PyTorch's, also at the corners.
//
//   layer              y                          dx
//   Relu               max(x, 0)                  dy where y > 0, else 0
//   LeakyRelu          x > 0 ? x : slope * x      dy where y > 0, else slope * dy
//   Clip               min(max(x, low), high)     dy where low < y < high, else 0
//   Sigmoid            1 / (1 + exp(-x))          dy * y * (1 - y)
//   Tanh               tanh(x)                    dy * (1 - y^2)
//   HardSigmoid        min(max(x + 3, 0), 6) / 6  dy / 6 where -3 < x < 3, else 0
//   HardSwish          x * HardSigmoid(x)         dy * (x / 3 + 1/2) where -3 < x < 3; 0 below it,
//                                                 dy above it
//   Silu (swish)       x * s, s = Sigmoid(x)      dy * s * (1 + x * (1 - s))
//   Gelu               x * p, p = Phi(x)          dy * (p + x * p'(x))
//   Elu                x > 0 ? x :                dy where x > 0, else dy * alpha * exp(x)
//                      alpha * (exp(x) - 1)
//   Softplus           log(1 + exp(b * x)) / b    dy * Sigmoid(b * x)
//   Mish               x * t,                     dy * (t + x * s * (1 - t^2))
//                      t = tanh(Softplus(x))
//
// Phi is the standard normal distribution function, (1 + erf(x / sqrt(2))) / 2, or, as an
// approximation, (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2. In Softplus b is `beta`, and
// where b * x exceeds the threshold, y is x and dx is dy.
//
//   step               reads  writes   in place
//   forward            x      y        y over x
//   backward_data      y, dy  dx       dx over dy   HardSigmoid, HardSwish, Silu, Gelu, Elu,
//                                                   Softplus and Mish: x, dy
//
// Where backward reads y, x need not outlive forward. HardSigmoid's gradient follows from y, too,
// but near its corners y may be rounded to 0 or 1 where the gradient is not 0; Elu's is y + alpha,
// of which the rounding of a y of 16 bits leaves nothing; and Softplus's does, but for the side of
// the threshold. HardSwish, Silu, Gelu and Mish have two x for some y.
//
// A NaN stays a NaN, and a finite x is never so large that one is made of it. An infinity times 0
// is one, as in PyTorch: Silu, Gelu and Mish at -infinity, and their gradients at both infinities.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "neap/core/step/layer.h"

namespace neap {

struct Relu {
  static constexpr std::string_view kType = "relu";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Relu&, const Relu&) = default;
};

// torch.nn.LeakyReLU. INVALID_ARGUMENT for a slope that is negative or not finite: the sign of y
// must be that of x.
struct LeakyRelu {
  static constexpr std::string_view kType = "leaky_relu";
  float negative_slope = 0.01F;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const LeakyRelu&, const LeakyRelu&) = default;
};

// torch.nn.Hardtanh; by default torch.nn.ReLU6. In a network of 16-bit types the bounds are rounded
// to the type, as y is. INVALID_ARGUMENT unless low < high.
struct Clip {
  static constexpr std::string_view kType = "clip";
  float low = 0;
  float high = 6;
  Clip RoundedTo(DType dtype) const;  // with the bounds that kernels use for tensors of the type
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Clip&, const Clip&) = default;
};

struct Sigmoid {
  static constexpr std::string_view kType = "sigmoid";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Sigmoid&, const Sigmoid&) = default;
};

struct Tanh {
  static constexpr std::string_view kType = "tanh";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Tanh&, const Tanh&) = default;
};

struct HardSigmoid {
  static constexpr std::string_view kType = "hard_sigmoid";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const HardSigmoid&, const HardSigmoid&) = default;
};

struct HardSwish {
  static constexpr std::string_view kType = "hard_swish";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const HardSwish&, const HardSwish&) = default;
};

struct Silu {
  static constexpr std::string_view kType = "silu";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Silu&, const Silu&) = default;
};

struct Gelu {
  static constexpr std::string_view kType = "gelu";
  enum class Approximation : uint8_t { kNone, kTanh };  // torch.nn.GELU's `approximate`
  Approximation approximation = Approximation::kNone;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Gelu&, const Gelu&) = default;
};
std::string_view Name(Gelu::Approximation approximation);  // "none", "tanh"
absl::StatusOr<Gelu::Approximation> ParseApproximation(std::string_view name);

// torch.nn.ELU. INVALID_ARGUMENT for an alpha that is not finite.
struct Elu {
  static constexpr std::string_view kType = "elu";
  float alpha = 1;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Elu&, const Elu&) = default;
};

// torch.nn.Softplus. INVALID_ARGUMENT unless beta is positive and both numbers are finite.
struct Softplus {
  static constexpr std::string_view kType = "softplus";
  float beta = 1;
  float threshold = 20;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Softplus&, const Softplus&) = default;
};

struct Mish {
  static constexpr std::string_view kType = "mish";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Mish&, const Mish&) = default;
};

}  // namespace neap
