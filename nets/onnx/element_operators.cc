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
#include "neap/layers/join.h"
#include "neap/layers/multiply.h"
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

// The layer that x * gate(x) is, if there is one: x * sigmoid(x), for example.
std::optional<Layer> GatedBy(const GraphLayer& gate, const ImageValue& x) {
  if (gate.inputs.size() != 1 || gate.inputs[0] != x.layer) return std::nullopt;
  if (gate.layer.As<Sigmoid>() != nullptr) return Silu{};
  if (gate.layer.As<neap::HardSigmoid>() != nullptr) return HardSwish{};
  return std::nullopt;
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
  const Layer layer = node.op() == "Relu"        ? Layer(Relu{})
                      : node.op() == "Sigmoid"   ? Layer(Sigmoid{})
                      : node.op() == "HardSwish" ? Layer(HardSwish{})
                                                 : Layer(Tanh{});
  return network.AddLayer(node.proto(), layer, {std::move(x)});
}

absl::Status LeakyRelu(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  const float slope = node.Float("alpha", 0.01F);
  return network.AddLayer(node.proto(), neap::LeakyRelu{.negative_slope = slope}, {std::move(x)});
}

absl::Status Clip(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  constexpr double kLargest = std::numeric_limits<float>::max();
  ASSIGN_OR_RETURN(const double low, node.Scalar(1, -kLargest));
  ASSIGN_OR_RETURN(const double high, node.Scalar(2, kLargest));
  return network.AddLayer(
      node.proto(), neap::Clip{.low = static_cast<float>(low), .high = static_cast<float>(high)},
      {std::move(x)});
}

absl::Status HardSigmoid(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  const float alpha = node.Float("alpha", 0.2F);
  const float beta = node.Float("beta", 0.5F);
  // Exporters write 1/6 with more or fewer digits.
  if (std::abs(alpha - 1.0F / 6) > 1e-6F || beta != 0.5F) {
    return absl::UnimplementedError(
        absl::StrCat("its alpha is ", alpha, " and its beta ", beta, "; 1/6 and 1/2 are needed"));
  }
  return network.AddLayer(node.proto(), neap::HardSigmoid{}, {std::move(x)});
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
  x.softmax = std::string(node.op());
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

absl::Status Sum(NodeReader& node, NetworkBuilder& network) {
  if (node.input_count() == 2 && node.IfStored(1)) return AddToLinear(node, network, 0, 1);
  if (node.input_count() == 2 && node.IfStored(0)) return AddToLinear(node, network, 1, 0);
  return Join(node, network, Add{});
}

absl::Status Mul(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const std::vector<ImageValue> factors, node.AllImages());
  if (factors.size() != 2) return absl::InvalidArgumentError("it needs two inputs");
  for (const size_t gate : {size_t{0}, size_t{1}}) {
    const ImageValue& x = factors[1 - gate];
    std::optional<Layer> gated = GatedBy(network.LayerOf(factors[gate]), x);
    if (gated.has_value()) return network.AddLayer(node.proto(), *std::move(gated), {x});
  }
  // The smaller one comes second.
  const bool swapped = factors[0].elements() < factors[1].elements();
  return network.AddLayer(node.proto(), Multiply{},
                          {factors[swapped ? 1 : 0], factors[swapped ? 0 : 1]});
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
