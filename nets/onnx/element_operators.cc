// Operators on elements, and those where branches meet.
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

// A layer of a type that has a field `bias`, with bias; empty if it has one, or no such field.
std::optional<Layer> WithBias(const Layer& layer) {
  if (const auto* const fc = layer.As<FullyConnected>(); fc != nullptr && !fc->bias) {
    FullyConnected with_bias = *fc;
    with_bias.bias = true;
    return with_bias;
  }
  if (const auto* const conv = layer.As<Convolution>(); conv != nullptr && !conv->bias) {
    Convolution with_bias = *conv;
    with_bias.bias = true;
    return with_bias;
  }
  return std::nullopt;
}

// Whether a tensor that is added to images has one value for each of their channels.
bool IsPerChannel(const Stored& vector, const ImageValue& x) {
  const std::vector<int64_t> dims = vector.dims();
  const size_t channel_axis = x.is_flat ? 1 : 3;  // counted from the last axis
  if (dims.size() < channel_axis || (x.is_flat && x.elements() != x.spec.shape.c())) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_channel = dims.size() - i == channel_axis;
    if (dims[i] != (is_channel ? x.spec.shape.c() : 1)) return false;
  }
  return true;
}

// A layer that joins all inputs. A single one stays as it is.
absl::Status Join(NodeReader& node, NetworkBuilder& network, Layer layer) {
  ASSIGN_OR_RETURN(const std::vector<ImageValue> inputs, node.AllImages());
  if (inputs.size() > 1) return network.AddLayer(node.proto(), std::move(layer), inputs);
  network.Set(node.proto().output(0), inputs[0]);
  return absl::OkStatus();
}

// Adds a constant to what a layer without bias computes.
absl::Status AddToLinear(NodeReader& node, NetworkBuilder& network, int image, int constant) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(image));
  ASSIGN_OR_RETURN(Weight bias, node.Tensor(constant, "bias"));
  std::optional<Layer> with_bias = WithBias(network.LayerOf(x).layer);
  if (!with_bias.has_value() || !IsPerChannel(bias.stored, x) ||
      network.ReaderCount(node.proto().input(image)) != 1) {
    return absl::UnimplementedError(
        "it adds a constant that is not the bias of a convolution or a matrix product");
  }
  network.AddBias(x, *std::move(with_bias), std::move(bias));
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

}  // namespace

absl::Status Activation(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  const Layer layer = node.op() == "Relu"      ? Layer(Relu{})
                      : node.op() == "Sigmoid" ? Layer(Sigmoid{})
                                               : Layer(Tanh{});
  return network.AddLayer(node.proto(), layer, {std::move(x)});
}

absl::Status Dropout(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  ASSIGN_OR_RETURN(const double probability, node.Scalar(1, 0.5));
  node.Int("seed", 0);
  if (!(probability >= 0 && probability < 1)) {
    return absl::UnimplementedError(
        absl::StrCat("its ratio is ", probability, ", which is not from 0 up to 1"));
  }
  return network.AddLayer(
      node.proto(), neap::Dropout{.probability = static_cast<float>(probability)}, {std::move(x)});
}

absl::Status Softmax(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  const int64_t rank = x.is_flat ? 2 : 4;
  const int64_t axis = node.Int("axis", -1);
  if (axis != 1 && axis != 1 - rank) {
    return absl::UnimplementedError(
        absl::StrCat("attribute 'axis' is ", axis, ", which is not that of the channels"));
  }
  // Cross-entropy needs the softmax of scores; that of their logarithmic softmax is the same.
  x.softmax = true;
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

absl::Status Sum(NodeReader& node, NetworkBuilder& network) {
  if (node.input_count() == 2 && node.IfStored(1)) return AddToLinear(node, network, 0, 1);
  if (node.input_count() == 2 && node.IfStored(0)) return AddToLinear(node, network, 1, 0);
  return Join(node, network, Add{});
}

absl::Status Concat(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const std::vector<ImageValue> inputs, node.AllImages());
  const int64_t rank = inputs[0].is_flat ? 2 : 4;
  const int64_t axis = node.Int("axis", 1);
  if (axis != 1 && axis != 1 - rank) {
    return absl::UnimplementedError(
        absl::StrCat("attribute 'axis' is ", axis, ", which is not that of the channels"));
  }
  return Join(node, network, neap::Concat{});
}

}  // namespace neap::nets::operators
