#include "neap/layers/scale_shift.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

// One number for each channel of x, which begins as `initial`.
ParamSpec ChannelNumbers(std::string name, float initial, const Shape& x) {
  const std::vector<int64_t> ones(x.spatial().size(), 1);
  Shape::Dims saved = {x.c()};
  saved.insert(saved.end(), ones.begin(), ones.end());
  return {.name = std::move(name),
          .tensor = VectorSpec(x.c()),
          .init = {Init::Kind::kConstant, initial},
          .saved_shape = Shape(std::move(saved))};
}

}  // namespace

// Texts from before the numbers were learned stay valid.
std::string ScaleShift::Parameters() const {
  std::string text = ParameterText({{"scale", scale}, {"shift", shift}});
  if (learns_scale) absl::StrAppend(&text, " learns_scale=true");
  if (learns_shift) absl::StrAppend(&text, " learns_shift=true");
  return text;
}

absl::StatusOr<LayerSpec> ScaleShift::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  if (!std::isfinite(scale) || !std::isfinite(shift)) {
    return absl::InvalidArgumentError(
        absl::StrCat("scale ", scale, " and shift ", shift, " must be finite"));
  }
  const TensorSpec& x = context.inputs[0];
  const auto elements = static_cast<double>(x.elements());
  LayerSpec spec = {.output = x, .traits = {.independent_images = true}};
  StepSpec forward = {
      .reads = {X()}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = 2 * elements};
  StepSpec backward = {.phase = Phase::kBackwardData,
                       .reads = {Dy()},
                       .writes = {Dx()},
                       .in_place = {{Dx(), Dy()}},
                       .flops = elements};
  if (learns()) backward.accumulates_natively = {Slot::kParamGrad};
  if (learns_scale) {
    spec.params.push_back(ChannelNumbers("layer_scale", scale, x.shape));
    forward.reads.push_back(Param(0));
    backward.reads = {X(), Param(0), Dy()};
    backward.writes.push_back(ParamGrad(0));
    backward.flops += 2 * elements;
  }
  if (learns_shift) {
    spec.params.push_back(ChannelNumbers("layer_shift", shift, x.shape));
    forward.reads.push_back(Param(shift_param()));
    backward.writes.push_back(ParamGrad(shift_param()));
    backward.flops += elements;
  }
  spec.steps.push_back(std::move(forward));
  if (context.mode == Mode::kTraining) spec.steps.push_back(std::move(backward));
  return spec;
}

}  // namespace neap
