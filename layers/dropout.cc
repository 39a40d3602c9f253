#include "neap/layers/dropout.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

absl::StatusOr<LayerSpec> SpecifyDropping(const LayerContext& context, std::string_view name,
                                          float probability) {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  if (!(probability >= 0 && probability < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(name), " ", probability, " is outside [0, 1)"));
  }
  const TensorSpec& x = context.inputs[0];
  const double elements = static_cast<double>(x.elements());
  LayerSpec spec = {.output = x, .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X()}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = elements});
  if (context.mode == Mode::kInference) return spec;
  spec.steps[0].reads.push_back(Iteration());
  spec.steps[0].depends_on_part = true;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Dy(), Iteration()},
                        .writes = {Dx()},
                        .in_place = {{Dx(), Dy()}},
                        .depends_on_part = true,
                        .flops = elements});
  return spec;
}

// What a step of a layer that drops reads.
const TensorSpec& ReadSpec(const StepSignature& signature) {
  return signature.Spec(signature.phase == Phase::kForward ? X() : Dy());
}

}  // namespace

// Texts from before `per_channel` stay valid.
std::string Dropout::Parameters() const {
  if (!per_channel) return ParameterText({{"probability", probability}});
  return ParameterText({{"probability", probability}, {"per_channel", per_channel}});
}

absl::StatusOr<LayerSpec> Dropout::Specify(const LayerContext& context) const {
  return SpecifyDropping(context, "probability", probability);
}

std::string StochasticDepth::Parameters() const { return ParameterText({{"rate", rate}}); }

absl::StatusOr<LayerSpec> StochasticDepth::Specify(const LayerContext& context) const {
  return SpecifyDropping(context, "rate", rate);
}

DroppedUnits DroppedUnitsOf(const StepSignature& signature) {
  const auto* const dropout = signature.layer.As<Dropout>();
  if (dropout == nullptr)
    return DroppedImagesOf(signature, signature.layer.As<StochasticDepth>()->rate);
  const TensorSpec& read = ReadSpec(signature);
  const int64_t images = read.shape.n(), of_image = read.elements() / images;
  DroppedUnits dropped = {.units = read, .probability = dropout->probability};
  if (!dropout->per_channel) dropped.units = {.shape = {images, of_image, 1}, .dtype = read.dtype};
  dropped.first = signature.part.CountBefore(images * dropped.units.shape.c(), images);
  return dropped;
}

DroppedUnits DroppedImagesOf(const StepSignature& signature, float rate) {
  const TensorSpec& read = ReadSpec(signature);
  const int64_t images = read.shape.n();
  return {.units = {.shape = {images, 1, read.elements() / images}, .dtype = read.dtype},
          .first = signature.part.CountBefore(images, images),
          .probability = rate};
}

}  // namespace neap
