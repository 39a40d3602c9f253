#include "neap/layers/catalog/kernel_axes.h"

#include <algorithm>
#include <cstdint>
#include <variant>

#include "neap/core/step/operands.h"
#include "neap/core/step/window.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/pooling.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"

namespace neap {
namespace {

// Calls f(extents, idle) for all extents of the layer's windows. `idle` is the number along an axis
// on which a window has one element and does not move.
template <typename Definition, typename F>
void ForEachExtents(Definition& layer, F f) {
  f(layer.kernel, 1);
  f(layer.stride, 1);
  f(layer.padding, 0);
  if constexpr (requires { layer.dilation; }) f(layer.dilation, 1);
}
template <typename F>
void ForEachExtents(FusedConvolution& layer, F f) {
  ForEachExtents(layer.convolution, f);
}
template <typename F>
void ForEachExtents(FusedRelu& layer, F f) {
  ForEachExtents(layer.pool, f);
}
template <typename F>
void ForEachExtents(NormPass& layer, F f) {
  if (MaxPool* const pool = std::get_if<MaxPool>(&layer.sink)) ForEachExtents(*pool, f);
}
template <typename F>
void ForEachExtents(Crop& layer, F f) {
  f(layer.size, 1);
  f(layer.offset, 0);
}

template <typename Definition, typename F>
bool ChangeIfIs(Layer& layer, F f) {
  const Definition* const definition = layer.As<Definition>();
  if (definition == nullptr) return false;
  Definition changed = *definition;
  ForEachExtents(changed, f);
  layer = changed;
  return true;
}

// The same for every layer; nothing is called for those without windows.
template <typename F>
void ChangeExtents(Layer& layer, F f) {
  ChangeIfIs<Convolution>(layer, f) || ChangeIfIs<TransposedConvolution>(layer, f) ||
      ChangeIfIs<MaxPool>(layer, f) || ChangeIfIs<AveragePool>(layer, f) ||
      ChangeIfIs<FusedConvolution>(layer, f) || ChangeIfIs<FusedRelu>(layer, f) ||
      ChangeIfIs<NormPass>(layer, f) || ChangeIfIs<Crop>(layer, f);
}

bool TakesAllAxes(const Layer& layer) {
  return layer.As<Attention>() != nullptr || layer.As<Resize>() != nullptr ||
         layer.As<AdaptiveAveragePool>() != nullptr || layer.As<PixelShuffle>() != nullptr ||
         layer.As<PixelUnshuffle>() != nullptr || layer.As<Softmax>() != nullptr ||
         layer.As<Reshape>() != nullptr || layer.As<Permute>() != nullptr ||
         layer.As<WindowPartition>() != nullptr || layer.As<WindowMerge>() != nullptr ||
         layer.As<Roll>() != nullptr || layer.As<Tile>() != nullptr;
}

// Whether a loss's labels are finer than its predictions (core/graph/label_grid.h).
bool HasFinerLabels(const StepSignature& signature) {
  using namespace operands;
  if (!signature.Has(X(1)) || signature.Spec(X(1)).dtype != DType::kInt32) return false;
  const Operand predictions = signature.Has(Y()) ? Y() : X(0);
  const Shape& shape = signature.Spec(predictions).shape;
  return signature.Spec(X(1)).elements() != shape.n() * shape.positions();
}

bool IsIdle(Layer layer, int axis) {
  bool is_idle = true;
  ChangeExtents(layer, [&](const Extents& extents, int64_t idle) {
    is_idle = is_idle && extents[axis] == idle;
  });
  return is_idle;
}

// How the axes of kernels are made of others: "1" is an axis of extent 1.
enum class View : uint8_t { kOneByT, kDhByW, kDByHw, kDByHByW };

View ViewOf(const Layer& layer, int axes) {
  if (axes == 1) return View::kOneByT;
  // A part of extent 1 at offset 0 may be smaller than the volume.
  if (layer.As<Crop>() != nullptr || layer.As<ZeroPad>() != nullptr) return View::kDByHByW;
  if (!IsIdle(layer, 1)) return View::kDByHByW;
  if (IsIdle(layer, 0)) return View::kDhByW;
  return IsIdle(layer, 2) ? View::kDByHw : View::kDByHByW;
}

Shape Viewed(const Shape& s, View view) {
  switch (view) {
    case View::kOneByT:
      return {s[0], s[1], 1, s[2]};
    case View::kDhByW:
      return {s[0], s[1], s[2] * s[3], s[4]};
    case View::kDByHw:
      return {s[0], s[1], s[2], s[3] * s[4]};
    case View::kDByHByW:
      break;
  }
  return s;
}

Extents Viewed(const Extents& extents, int64_t idle, View view) {
  switch (view) {
    case View::kOneByT:
      return {idle, extents[0]};
    case View::kDhByW:
      return {idle, extents[2]};
    case View::kDByHw:
      return {extents[0], idle};
    case View::kDByHByW:
      return extents.Along(kMaxSpatialAxes);
  }
  return extents;
}

// Whether the operand's shape has other axes than an image. Class indices {N, H, W} have other axes
// than predictions, and kernels read them one after another.
bool HasOtherAxes(const OperandSpec& operand) {
  const int axes = operand.tensor.shape.spatial_axes();
  const bool is_index =
      operand.operand.slot == Slot::kInput && operand.tensor.dtype == DType::kInt32;
  return (axes == 1 || axes == kMaxSpatialAxes) && !is_index;
}

}  // namespace

StepSignature WithKernelAxes(StepSignature signature) {
  const auto other =
      std::find_if(signature.operands.begin(), signature.operands.end(), HasOtherAxes);
  if (other == signature.operands.end()) return signature;
  const int axes = other->tensor.shape.spatial_axes();
  const bool is_of_layer = IsOfLayer(signature.phase);
  if (is_of_layer && (TakesAllAxes(signature.layer) || HasFinerLabels(signature))) return signature;
  const View view = is_of_layer || axes == 1 ? ViewOf(signature.layer, axes) : View::kDhByW;
  for (OperandSpec& operand : signature.operands) {
    if (HasOtherAxes(operand)) operand.tensor.shape = Viewed(operand.tensor.shape, view);
  }
  if (is_of_layer) {
    ChangeExtents(signature.layer,
                  [&](Extents& extents, int64_t idle) { extents = Viewed(extents, idle, view); });
  }
  return signature;
}

}  // namespace neap
