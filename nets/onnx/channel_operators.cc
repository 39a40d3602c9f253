// Matrix products and normalisations.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/lrn.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/constants/constant_math.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

// The matrix {out, in} as the weight {out, in, 1, 1} of a convolution of images with so many axes.
void MakeKernel(int rank, Weight& matrix) {
  std::vector<int64_t> dims = matrix.dims();
  dims.resize(static_cast<size_t>(rank), 1);
  auto* const stored = std::get_if<Stored>(&matrix.tensor);
  if (stored == nullptr) {
    std::get<Constant>(matrix.tensor).dims = std::move(dims);
    return;
  }
  if (stored->is_transposed) std::reverse(dims.begin(), dims.end());
  stored->reshaped = std::move(dims);
}

// x with its last axis as the channels, or as vectors.
absl::StatusOr<ImageValue> WithLastAxis(const NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  if (x.is_flat() || x.arrangement.IsWhole(x.rank() - 1, 1)) return x;
  const bool is_vector = x.rank() == 2 && x.arrangement.axes()[0].size() == 1;
  return is_vector ? node.Image(0) : WithChannels(node.proto(), network, x, x.rank() - 1);
}

// Adds a fully connected layer with the weight {out, in}, and perhaps a bias. Of images whose
// channels are the last axis, it is a convolution of one pixel.
absl::Status AddLinear(NodeReader& node, NetworkBuilder& network, std::vector<Weight> weights) {
  ASSIGN_OR_RETURN(ImageValue x, WithLastAxis(node, network));
  const int64_t outputs = weights[0].dims()[0];
  const bool bias = weights.size() > 1;
  if (x.is_flat()) {
    return network.AddLayer(node.proto(), FullyConnected{.out_features = outputs, .bias = bias},
                            {std::move(x)}, std::move(weights), Form::kFlat);
  }
  const Arrangement arrangement = x.arrangement.WithExtent(x.rank() - 1, 1, outputs);
  MakeKernel(x.spec.shape.rank(), weights[0]);
  RETURN_IF_ERROR(network.AddLayer(node.proto(), Convolution{.out_channels = outputs, .bias = bias},
                                   {std::move(x)}, std::move(weights), Form::kImage));
  network.SetArrangement(node.proto(), arrangement);
  return absl::OkStatus();
}

// The matrix that the input is multiplied with, {in, out} or, if it is to be transposed, {out, in},
// as {out, in}.
absl::StatusOr<Weight> Matrix(NodeReader& node, bool is_transposed) {
  ASSIGN_OR_RETURN(Weight weight, node.Tensor(1, "weight"));
  const std::vector<int64_t> dims = weight.dims();
  if (dims.size() != 2) {
    return absl::UnimplementedError(
        absl::StrCat("its weight has ", dims.size(), " axes; 2 are needed"));
  }
  if (is_transposed) return weight;
  if (auto* const stored = std::get_if<Stored>(&weight.tensor)) {
    stored->is_transposed = !stored->is_transposed;
  } else {
    weight.tensor = View(std::get<Constant>(weight.tensor), {dims[1], dims[0]}, {1, dims[1]});
  }
  return weight;
}

// The C of a Gemm, which is added to vectors of `outputs` elements: a bias. A single element is
// added to all of them.
absl::StatusOr<Weight> GemmBias(NodeReader& node, int64_t outputs) {
  ASSIGN_OR_RETURN(Weight bias, node.Tensor(2, "bias"));
  const std::vector<int64_t> dims = bias.dims();
  if (dims.size() > 2 || (dims.size() == 2 && dims[0] != 1)) {
    return absl::UnimplementedError(absl::StrCat("its C is ", absl::StrJoin(dims, "x"),
                                                 ", which is not the same for all images"));
  }
  if (!dims.empty() && dims.back() == outputs) {
    bias.Flatten(outputs);
    return bias;
  }
  ASSIGN_OR_RETURN(const Constant constant, node.Constant(2));
  if (constant.values.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("its C is ", absl::StrJoin(dims, "x"), ", but ", outputs, " is needed"));
  }
  bias.tensor = View(constant, {outputs}, {0});
  return bias;
}

// Multiplies by a factor that is an attribute.
absl::Status Multiply(float factor, NetworkBuilder& network, Weight& weight) {
  if (factor == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Constant values, network.ReadConstant(weight));
  const Constant scalar = {.values = {factor}, .type = values.type};
  ASSIGN_OR_RETURN(weight.tensor, Elementwise(network.budget(), "Mul", {values, scalar}));
  return absl::OkStatus();
}

// PyTorch's momentum for ONNX's, which is 1 less that, rounded: the decimal number that was meant,
// if ONNX's follows from it.
float MomentumFrom(float onnx) {
  constexpr float kDecimals = 1e6F;
  const float meant = std::round((1 - onnx) * kDecimals) / kDecimals;
  return 1 - meant == onnx ? meant : 1 - onnx;
}

}  // namespace

absl::Status Gemm(NodeReader& node, NetworkBuilder& network) {
  std::vector<Weight> weights(1);
  ASSIGN_OR_RETURN(weights[0], Matrix(node, node.Int("transB", 0) != 0));
  if (node.Int("transA", 0) != 0) return absl::UnimplementedError("attribute 'transA' is not 0");
  RETURN_IF_ERROR(Multiply(node.Float("alpha", 1), network, weights[0]));
  const float beta = node.Float("beta", 1);
  if (node.HasInput(2)) {
    ASSIGN_OR_RETURN(weights.emplace_back(), GemmBias(node, weights[0].dims()[0]));
    RETURN_IF_ERROR(Multiply(beta, network, weights[1]));
  }
  return AddLinear(node, network, std::move(weights));
}

absl::Status MatMul(NodeReader& node, NetworkBuilder& network) {
  if (node.IfImage(1) != nullptr && (node.IfImage(0) != nullptr || node.IsConstant(0)))
    return AttentionScores(node, network);
  std::vector<Weight> weights(1);
  ASSIGN_OR_RETURN(weights[0], Matrix(node, /*is_transposed=*/false));
  return AddLinear(node, network, std::move(weights));
}

absl::Status BatchNormalization(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.ImageOfAnyLayout(0));
  if (x.channel_axis() != 1) {
    ASSIGN_OR_RETURN(x, node.Image(0));
  }
  const BatchNorm layer = {.epsilon = node.Float("epsilon", 1e-5F),
                           .momentum = MomentumFrom(node.Float("momentum", 0.9F))};
  node.Int("training_mode", 0);  // neap trains it either way
  std::vector<Weight> weights;
  int input = 0;
  for (const char* const name : {"weight", "bias", "running_mean", "running_var"}) {
    ASSIGN_OR_RETURN(weights.emplace_back(), node.Tensor(++input, name));
  }
  if (x.is_flat() && x.elements() != x.spec.shape.c())
    return absl::UnimplementedError("it normalises the elements of an image that is made flat");
  return network.AddLayer(node.proto(), layer, {std::move(x)}, std::move(weights));
}

absl::Status Lrn(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  const LocalResponseNorm layer = {.size = node.Int("size", 0),
                                   .alpha = node.Float("alpha", 1e-4F),
                                   .beta = node.Float("beta", 0.75F),
                                   .k = node.Float("bias", 1)};
  return network.AddLayer(node.proto(), layer, {std::move(x)});
}

}  // namespace neap::nets::operators
