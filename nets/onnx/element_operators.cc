// Operators on elements, and those where branches meet.
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/multiply.h"
#include "neap/layers/norm/softmax.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

// The axis of the layer that is this one of the tensor; absent if it is none, or a part of one.
std::optional<int64_t> LayersAxis(const ImageValue& x, size_t axis) {
  if (x.is_image()) return static_cast<int64_t>(axis);
  if (x.is_flat()) return x.spec.shape.positions() == 1 ? std::optional<int64_t>(1) : std::nullopt;
  if (x.arrangement.IsWhole(axis, 1)) return 1;
  for (int own = 2; own < x.spec.shape.rank(); ++own) {
    if (x.arrangement.IsWhole(axis, own)) return own;
  }
  return std::nullopt;
}

}  // namespace

absl::Status Activation(NodeReader& node, NetworkBuilder& network) {
  if (node.op() == "Tanh" && node.ReadsFormula()) return Step(node, network);
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  const Layer layer = node.op() == "Relu"        ? Layer(Relu{})
                      : node.op() == "Sigmoid"   ? Layer(Sigmoid{})
                      : node.op() == "HardSwish" ? Layer(HardSwish{})
                      : node.op() == "Softplus"  ? Layer(Softplus{})
                      : node.op() == "Mish"      ? Layer(Mish{})
                                                 : Layer(Tanh{});
  return network.AddLayer(node.proto(), layer, {std::move(x)});
}

absl::Status Elu(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  const neap::Elu layer = {.alpha = node.Float("alpha", 1.0F)};
  return network.AddLayer(node.proto(), layer, {std::move(x)});
}

absl::Status Gelu(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  ASSIGN_OR_RETURN(const auto approximation,
                   ParseApproximation(node.String("approximate", "none")));
  return network.AddLayer(node.proto(), neap::Gelu{approximation}, {std::move(x)});
}

absl::Status LeakyRelu(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  const float slope = node.Float("alpha", 0.01F);
  return network.AddLayer(node.proto(), neap::LeakyRelu{.negative_slope = slope}, {std::move(x)});
}

absl::Status Clip(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  ASSIGN_OR_RETURN(const auto bounds, node.Bounds());
  const neap::Clip layer = {.low = static_cast<float>(bounds.first),
                            .high = static_cast<float>(bounds.second)};
  return network.AddLayer(node.proto(), layer, {std::move(x)});
}

absl::Status Dropout(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  const double stated = node.Float("ratio", 0.5F);  // before opset 12
  ASSIGN_OR_RETURN(const double probability, node.Scalar(1, stated));
  node.Int("seed", 0);
  if (!(probability >= 0 && probability < 1)) {
    return absl::UnimplementedError(
        absl::StrCat("its ratio is ", probability, ", which is not from 0 up to 1"));
  }
  return network.AddLayer(
      node.proto(), neap::Dropout{.probability = static_cast<float>(probability)}, {std::move(x)});
}

absl::Status Softmax(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  ASSIGN_OR_RETURN(const size_t axis, SoftmaxAxis(node, network.opset(), x.dims()));
  if (x.is_flat() && x.elements() != x.spec.shape.c())
    return absl::UnimplementedError("it is of the elements of an image that is made flat");
  std::optional<int64_t> own = LayersAxis(x, axis);
  if (!own.has_value()) {
    ASSIGN_OR_RETURN(x, node.Image(0));
    own = static_cast<int64_t>(axis);
  }
  const neap::Softmax layer = {.axis = *own, .logarithm = node.op() == "LogSoftmax"};
  return network.AddLayer(node.proto(), layer, {std::move(x)});
}

}  // namespace neap::nets::operators
