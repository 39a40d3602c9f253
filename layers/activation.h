// Elementwise non-linearities.
//
//   step           reads  writes   in place
//   forward        x      y        y over x
//   backward_data  y, dy  dx       dx over dy
#pragma once

#include <optional>

#include "neap/core/step/layer.h"

namespace neap {

struct Relu {
  static constexpr std::string_view kType = "relu";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::optional<Layer> FusedWith(const Layer& reader, int input) const;  // layers/fused_relu.h
  friend bool operator==(const Relu&, const Relu&) = default;
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

}  // namespace neap
