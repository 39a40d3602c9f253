// The product of two different tensors, such as feature maps and the weights that squeeze and
// excitation gives their channels (Hu et al., 2018).
//
//   step           reads        writes      in place
//   forward        a, b         y           y over a
//   backward_data  a, b, dy     da, db      da over dy or a
//
// a is input 0, {N, C, H, W}, say. b is input 1, of the same shape or {N, C, 1, 1}: then
// y[n, c, h, w] = a[n, c, h, w] * b[n, c], and db[n, c] is the sum of dy * a over h and w, which is
// taken in fp32 in a fixed order and rounded once.
//
// Backward accumulates natively: it adds to a da or db that already holds a partial sum.
//
//   const std::string weights = net.Add("scale", Sigmoid{}, {squeezed});  // N x C x 1 x 1
//   x = net.Add("mul", Multiply{}, {x, weights});
#pragma once

#include "neap/core/step/layer.h"

namespace neap {

// Errors: INVALID_ARGUMENT unless there are two inputs with shapes as above, of one dtype and
// layout.
struct Multiply {
  static constexpr std::string_view kType = "multiply";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const Multiply&, const Multiply&) = default;
};

}  // namespace neap
