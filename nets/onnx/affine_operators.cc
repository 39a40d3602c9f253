// Sums and products, of layers' outputs and with constants.
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/layers/join.h"
#include "neap/layers/multiply.h"
#include "neap/layers/prelu.h"
#include "neap/layers/scale_shift.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

// Whether a constant of these extents has one value for each channel of images.
bool IsPerChannel(const std::vector<int64_t>& dims, const ImageValue& x) {
  const std::optional<size_t> axis = x.channel_axis();
  if (!axis.has_value()) return false;
  const size_t channel_axis = x.rank() - *axis;  // from the last one
  if (dims.size() < channel_axis || dims.size() > x.rank()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_channel = dims.size() - i == channel_axis;
    if (dims[i] != (is_channel ? x.spec.shape.c() : 1)) return false;
  }
  return true;
}

// The layer that x * gate(x) is, if there is one: x * sigmoid(x), for example. In a file that neap
// wrote, the nodes of one layer have names that say so, and others are layers of their own.
std::optional<Layer> GatedBy(const ImageValue& gate, const ImageValue& x, const NodeReader& node,
                             const NetworkBuilder& network) {
  const auto is_part = [&](const GraphLayer& layer, std::string_view suffix) {
    return !network.written_by_neap() ||
           layer.name == absl::StrCat(node.proto().name(), std::string(suffix));
  };
  const GraphLayer& last = network.LayerOf(gate);
  if (last.inputs.size() != 1) return std::nullopt;
  const bool reads_x = last.inputs[0] == x.layer;
  if (reads_x && last.layer.As<Sigmoid>() != nullptr && is_part(last, ".sigmoid")) return Silu{};
  const bool is_hard = last.layer.As<neap::HardSigmoid>() != nullptr;
  if (reads_x && is_hard && !network.written_by_neap()) return HardSwish{};
  if (last.layer.As<Tanh>() == nullptr || !is_part(last, ".tanh")) return std::nullopt;
  const GraphLayer& first = network.LayerOf(last.inputs[0]);
  const bool is_mish =
      first.layer == Layer(Softplus{}) && first.inputs[0] == x.layer && is_part(first, ".softplus");
  return is_mish ? std::optional<Layer>(Mish{}) : std::nullopt;
}

// A Softplus of a product with `beta`, which is then divided by it, is one layer. Returns the layer
// and its input.
std::optional<std::pair<Softplus, std::string>> ScaledSoftplus(const ImageValue& x, double beta,
                                                               const NetworkBuilder& network) {
  const GraphLayer& softplus = network.LayerOf(x);
  if (softplus.layer != Layer(Softplus{})) return std::nullopt;
  const GraphLayer& product = network.LayerOf(softplus.inputs[0]);
  const Softplus scaled = {.beta = static_cast<float>(beta)};
  if (product.layer != Layer(ScaleShift{.scale = scaled.beta, .shift = 0}) || !(scaled.beta > 0))
    return std::nullopt;
  return std::pair(scaled, product.inputs[0]);
}

// The operation of a node with constants for each channel.
Constants KindOf(const NodeReader& node) {
  const bool multiplies = node.op() == "Mul" || node.op() == "Div";
  return multiplies ? Constants::kMultiplies : Constants::kAdds;
}

// Adds the layer, or makes it one with a product before it. Nothing is added for one that changes
// nothing.
absl::Status AddScaleShift(NodeReader& node, NetworkBuilder& network, ImageValue x,
                           ScaleShift layer) {
  if (std::optional<ScaledInput> written = network.WrittenScale(node.proto(), x)) {
    written->layer.shift = layer.shift;
    x.layer = std::move(written->input);
    return network.AddLayer(node.proto(), written->layer, {std::move(x)},
                            std::move(written->weights));
  }
  if (layer == ScaleShift{.scale = 1, .shift = 0} && !network.written_by_neap()) {
    network.Set(node.proto().output(0), std::move(x));
    return absl::OkStatus();
  }
  const GraphLayer& before = network.LayerOf(x);
  const auto* const product = before.layer.As<ScaleShift>();
  const bool is_one_layer = product != nullptr && !product->learns() && product->shift == 0 &&
                            layer.scale == 1 && !network.written_by_neap();
  if (is_one_layer) {
    layer.scale = product->scale;
    x.layer = before.inputs[0];
  }
  return network.AddLayer(node.proto(), layer, {std::move(x)});
}

// x and the constant that the node combines with it, of which `x_is_first`. The constant may be the
// tensor `stored` of the file.
struct Operands {
  ImageValue x;
  Constant constant;
  std::optional<Stored> stored;
  bool x_is_first;
};

absl::Status AddScalar(NodeReader& node, NetworkBuilder& network, Operands operands) {
  const auto scalar = static_cast<float>(operands.constant.values[0]);
  if (node.op() == "Div") {
    if (auto softplus = ScaledSoftplus(operands.x, operands.constant.values[0], network)) {
      operands.x.layer = std::move(softplus->second);
      return network.AddLayer(node.proto(), softplus->first, {std::move(operands.x)});
    }
  }
  ScaleShift layer;
  if (node.op() == "Mul") {
    layer.scale = scalar;
  } else if (node.op() == "Div") {
    layer.scale = 1 / scalar;
  } else if (node.op() == "Sub") {
    layer = {.scale = operands.x_is_first ? 1.0F : -1.0F,
             .shift = operands.x_is_first ? -scalar : scalar};
  } else {
    layer.shift = scalar;
  }
  return AddScaleShift(node, network, std::move(operands.x), layer);
}

absl::Status AddPerChannel(NodeReader& node, NetworkBuilder& network, Operands operands) {
  auto& [x, constant, stored, x_is_first] = operands;
  const std::string_view op = node.op();
  std::string name = node.proto().input(x_is_first ? 1 : 0);
  if (op == "Div" || (op == "Sub" && x_is_first)) {
    name.clear();  // these are other values
    stored.reset();
    for (double& value : constant.values) value = op == "Div" ? 1 / value : -value;
  }
  if (op == "Sub" && !x_is_first) {
    ASSIGN_OR_RETURN(x, network.AddExtra(node.proto(), {}, "_negative",
                                         ScaleShift{.scale = -1, .shift = 0}, {x}));
  }
  return network.AddConstants(node.proto(), KindOf(node), x, std::move(constant), std::move(name),
                              std::move(stored));
}

// x with all axes along which the constant varies as the channels, and the others as positions.
// Absent if the constant does not fit x, or varies from image to image.
absl::StatusOr<std::optional<ImageValue>> WithVaryingAsChannels(const NodeReader& node,
                                                                NetworkBuilder& network,
                                                                const ImageValue& x,
                                                                const std::vector<int64_t>& dims) {
  const std::vector<int64_t> of_x = x.dims();
  if (dims.size() > of_x.size()) return std::nullopt;
  const size_t offset = of_x.size() - dims.size();
  std::vector<Factors> wanted(2);
  for (size_t i = 0; i < of_x.size(); ++i) {
    const int64_t extent = i < offset ? 1 : dims[i - offset];
    if (extent != 1 && extent != of_x[i]) return std::nullopt;
    for (const Factor& factor : x.arrangement.axes()[i]) {
      if (factor.axis == 0 && extent != 1) return std::nullopt;
      if (factor.axis != 0) wanted[extent == 1 ? 1 : 0].push_back(factor);
    }
  }
  return WithAxes(node.proto(), network, x, wanted);
}

absl::Status AddForAxes(NodeReader& node, NetworkBuilder& network, Operands operands) {
  const std::vector<int64_t> dims = operands.constant.dims;
  ASSIGN_OR_RETURN(std::optional<ImageValue> by_channel,
                   WithVaryingAsChannels(node, network, operands.x, dims));
  if (!by_channel.has_value()) {
    return absl::UnimplementedError(absl::StrCat("its constant is ", absl::StrJoin(dims, "x"),
                                                 ", which is not the same for all images of ",
                                                 absl::StrJoin(operands.x.dims(), "x")));
  }
  operands.x = *std::move(by_channel);
  return AddPerChannel(node, network, std::move(operands));
}

absl::Status AddConstant(NodeReader& node, NetworkBuilder& network, bool x_is_first) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(x_is_first ? 0 : 1));
  if (node.op() == "Div" && !x_is_first)
    return absl::UnimplementedError("it divides a constant by a layer's output");
  ASSIGN_OR_RETURN(Constant constant, node.ConstantForImages(x_is_first ? 1 : 0, x));
  const std::vector<int64_t> dims = constant.dims;
  const bool is_scalar = constant.values.size() == 1 && dims.size() <= x.dims().size();
  const bool is_per_channel = IsPerChannel(dims, x);
  const bool is_of_layer = is_per_channel && network.TakesConstants(x, KindOf(node));
  // Of all that neap adds, only what is for each position has an axis of images.
  const bool may_be_positions =
      network.written_by_neap() ? dims.size() == x.dims().size() : !is_scalar && !is_per_channel;
  if (may_be_positions && AddsPositions(node, x, constant)) {
    return AddPositions(node, network, x, std::move(constant),
                        node.proto().input(x_is_first ? 1 : 0));
  }
  Operands operands = {std::move(x), std::move(constant), node.IfStored(x_is_first ? 1 : 0),
                       x_is_first};
  // neap writes one number for all channels without axes.
  const bool is_of_channel = is_of_layer || (is_per_channel && network.written_by_neap());
  if (is_scalar && !is_of_channel) return AddScalar(node, network, std::move(operands));
  if (is_per_channel) return AddPerChannel(node, network, std::move(operands));
  return AddForAxes(node, network, std::move(operands));
}

// Whether one of two inputs is a constant.
bool HasConstant(const NodeReader& node) {
  return node.input_count() == 2 && (node.IsConstant(0) || node.IsConstant(1));
}

// One with a value for each channel comes second.
absl::Status AddTensors(const NodeReader& node, NetworkBuilder& network,
                        std::vector<ImageValue> inputs) {
  if (inputs.size() == 2 && inputs[0].elements() < inputs[1].elements())
    std::swap(inputs[0], inputs[1]);
  return network.AddLayer(node.proto(), Add{}, std::move(inputs));
}

}  // namespace

absl::StatusOr<ImageValue> AddMultiplied(NodeReader& node, NetworkBuilder& network,
                                         const ImageValue& x, int constant) {
  ASSIGN_OR_RETURN(const Constant factors, node.Constant(constant));
  Operands operands = {x, factors, node.IfStored(constant), constant == 1};
  RETURN_IF_ERROR(AddForAxes(node, network, std::move(operands)));
  return std::get<ImageValue>(*network.Find(node.proto().output(0)));
}

absl::Status Sum(NodeReader& node, NetworkBuilder& network) {
  if (node.ReadsFormula()) return Step(node, network);
  if (HasConstant(node)) return AddConstant(node, network, node.IsConstant(1));
  ASSIGN_OR_RETURN(std::vector<ImageValue> inputs, node.AllImages());
  if (inputs.size() > 1) return AddTensors(node, network, std::move(inputs));
  network.Set(node.proto().output(0), inputs[0]);
  return absl::OkStatus();
}

absl::Status Sub(NodeReader& node, NetworkBuilder& network) {
  if (node.ReadsFormula()) return Step(node, network);
  if (HasConstant(node)) return AddConstant(node, network, node.IsConstant(1));
  ASSIGN_OR_RETURN(std::vector<ImageValue> inputs, node.AllImages());
  if (inputs.size() != 2) return absl::InvalidArgumentError("it needs two inputs");
  ASSIGN_OR_RETURN(inputs[1], network.AddExtra(node.proto(), {}, "_negative",
                                               ScaleShift{.scale = -1, .shift = 0}, {inputs[1]}));
  return AddTensors(node, network, std::move(inputs));
}

absl::Status Div(NodeReader& node, NetworkBuilder& network) {
  if (node.ReadsFormula()) return Step(node, network);
  if (HasConstant(node)) return AddConstant(node, network, node.IsConstant(1));
  return absl::UnimplementedError("it divides by a layer's output");
}

absl::Status Neg(NodeReader& node, NetworkBuilder& network) {
  if (node.ReadsFormula()) return Step(node, network);
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  return AddScaleShift(node, network, std::move(x), {.scale = -1, .shift = 0});
}

absl::Status Mul(NodeReader& node, NetworkBuilder& network) {
  if (node.ReadsFormula()) return Step(node, network);
  if (HasConstant(node)) return AddConstant(node, network, node.IsConstant(1));
  ASSIGN_OR_RETURN(const std::vector<ImageValue> factors, node.AllImages());
  if (factors.size() != 2) return absl::InvalidArgumentError("it needs two inputs");
  if (factors[0].layer == factors[1].layer) return Step(node, network);
  for (const size_t gate : {size_t{0}, size_t{1}}) {
    const ImageValue& x = factors[1 - gate];
    std::optional<Layer> gated = GatedBy(factors[gate], x, node, network);
    if (gated.has_value()) return network.AddLayer(node.proto(), *std::move(gated), {x});
  }
  // The smaller one comes second.
  const bool swapped = factors[0].elements() < factors[1].elements();
  return network.AddLayer(node.proto(), Multiply{},
                          {factors[swapped ? 1 : 0], factors[swapped ? 0 : 1]});
}

absl::Status HardSigmoid(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  const float alpha = node.Float("alpha", 0.2F);
  const float beta = node.Float("beta", 0.5F);
  // Exporters write 1/6 with more or fewer digits.
  if (std::abs(alpha - 1.0F / 6) <= 1e-6F && beta == 0.5F)
    return network.AddLayer(node.proto(), neap::HardSigmoid{}, {std::move(x)});
  ASSIGN_OR_RETURN(x, network.AddExtra(node.proto(), {}, "_linear",
                                       ScaleShift{.scale = alpha, .shift = beta}, {x}));
  return network.AddLayer(node.proto(), neap::Clip{.low = 0, .high = 1}, {std::move(x)});
}

absl::Status PRelu(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  ASSIGN_OR_RETURN(Weight slopes, node.Tensor(1, "weight"));
  // Behind a Reshape, the parameter has the name of the tensor, by which nodes share it.
  if (const std::optional<Stored> stored = node.IfStored(1)) slopes.value = stored->name();
  const std::vector<int64_t> dims = slopes.dims();
  int64_t count = 1;
  for (const int64_t extent : dims) count = SaturatingProduct(count, extent);
  const bool is_one = count == 1 && dims.size() <= x.dims().size();
  if (!is_one && !IsPerChannel(dims, x)) {
    return absl::UnimplementedError(
        absl::StrCat("its slope is ", absl::StrJoin(dims, "x"),
                     "; one value, or one for each channel, is needed"));
  }
  slopes.Flatten(count);
  return network.AddLayer(node.proto(), Prelu{.slopes = count}, {std::move(x)},
                          {std::move(slopes)});
}

}  // namespace neap::nets::operators
