// Tile: each image repeated along its channels and spatial axes, as torch.Tensor.repeat, torch.tile
// and ONNX's Tile.
//
//   step           reads  writes
//   forward        x      y       y[i] = x[i modulo the extent] along each axis
//   backward_data  dy     dx      an element of dx is the sum of those of dy that are copies of it
//
// Sums are in fp32, in a fixed order, and are rounded once. An axis of one element is so spread to
// any extent, as by torch.Tensor.expand.
//
//   x = net.Add("wide", Tile{.repeats = {1, 2}}, {x});  // {N, C, H, W} -> {N, C, H, 2 W}
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

// INVALID_ARGUMENT unless `repeats` has a number for each spatial axis, or one for all, and none of
// the counts is below 1, or above 2^31 - 1.
struct Tile {
  static constexpr std::string_view kType = "tile";
  Extents repeats = 1;   // along each spatial axis
  int64_t channels = 1;  // how often all of them are repeated
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Tile&, const Tile&) = default;
};

}  // namespace neap
