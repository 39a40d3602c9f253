// What a network that is read predicts: the graph's output, without what the loss computes itself,
// and the loss of it.
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets {

using onnx_schema::ValueInfo;

absl::Status NetworkBuilder::CheckOutputs() const {
  if (graph_.output_size() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the graph has ", graph_.output_size(), " outputs: ",
      absl::StrJoin(graph_.output(), ", ",
                    [](std::string* out, const ValueInfo& value) { out->append(value.name()); }),
      "; one is needed, the scores of the classes"));
}

absl::StatusOr<ImageValue> NetworkBuilder::Output() const {
  RETURN_IF_ERROR(CheckOutputs());
  const Value* const value = Find(graph_.output(0).name());
  if (value != nullptr && std::holds_alternative<NormPart>(*value)) {
    return absl::UnimplementedError(
        absl::StrCat("the output '", graph_.output(0).name(),
                     "' is a step of a layer norm, which neap only has as a whole"));
  }
  if (value != nullptr && std::holds_alternative<AttentionPart>(*value)) {
    return absl::UnimplementedError(absl::StrCat("the output '", graph_.output(0).name(),
                                                 "' is a step of an attention, which neap only has "
                                                 "as a whole"));
  }
  const auto* const images = value == nullptr ? nullptr : std::get_if<ImageValue>(value);
  if (images == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the output '", graph_.output(0).name(), "' is no output of a layer"));
  }
  return *images;
}

// Scores have the axes of images, or are vectors.
absl::StatusOr<ImageValue> NetworkBuilder::AsScores(const ImageValue& output) {
  const bool is_plain = !output.formula.has_value() &&
                        (output.is_image() || output.is_flat() || output.is_channels_last());
  if (is_plain || output.is_guess || graph_.node_size() == 0) return output;
  const onnx_schema::Node& last = graph_.node(graph_.node_size() - 1);
  if (output.formula.has_value()) {
    ASSIGN_OR_RETURN(const ImageValue computed, operators::AsLayers(last, *this, output));
    return AsScores(computed);
  }
  if (output.rank() > 2) return AsImage(last, *this, output);
  return InOrder(last, *this, output);
}

absl::StatusOr<ImageValue> NetworkBuilder::Predictions() {
  ASSIGN_OR_RETURN(ImageValue output, Output());
  const bool takes_sigmoid =
      options_.loss.As<BinaryCrossEntropy>() != nullptr || options_.loss.As<FocalLoss>() != nullptr;
  const absl::StatusOr<ImageValue> scores = AsScores(output);
  if (!scores.ok()) {
    return absl::Status(scores.status().code(),
                        absl::StrCat("the output '", graph_.output(0).name(), "' ",
                                     output.formula.has_value() ? "" : "cannot be put in order: ",
                                     scores.status().message()));
  }
  output = *scores;
  // The softmax of scores is that of their logarithmic softmax.
  const GraphLayer& last = LayerOf(output);
  const auto* const softmax = last.layer.As<Softmax>();
  if ((takes_sigmoid && last.layer.As<Sigmoid>() != nullptr) ||
      (MakesSoftmax(options_.loss) && softmax != nullptr && softmax->axis == 1))
    output.layer = last.inputs[0];
  return output;
}

absl::Status NetworkBuilder::AddLoss(const ImageValue& predictions, Graph& network) const {
  const Shape& shape = predictions.spec.shape;
  if (!MakesSoftmax(options_.loss)) {
    network.TargetLoss(predictions.layer, options_.loss,
                       Shape(Shape::Dims(shape.dims().begin() + 1, shape.dims().end())));
    return absl::OkStatus();
  }
  if (shape.positions() == 1) {
    network.Loss(predictions.layer, options_.loss);
    return absl::OkStatus();
  }
  if (predictions.is_flat()) {
    return absl::InvalidArgumentError(absl::StrCat("the output '", graph_.output(0).name(),
                                                   "' is an image of ", shape.ToString(),
                                                   " made flat; scores of classes are needed"));
  }
  network.PixelLoss(predictions.layer, options_.loss,
                    Shape(Shape::Dims(shape.spatial().begin(), shape.spatial().end())));
  return absl::OkStatus();
}

}  // namespace neap::nets
