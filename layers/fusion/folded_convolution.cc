#include "neap/layers/fusion/folded_convolution.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fusion/norm_pass.h"

namespace neap {
namespace {

using namespace operands;

// The multiply-adds, twice, of a product over all pixels.
double ProductFlops(const TensorSpec& image, int64_t channels) {
  return 2 * Product({image.elements(), channels});
}

StepSpec Forward(const FoldedConvolution& layer, const TensorSpec& x, const TensorSpec& y,
                 Mode mode) {
  StepSpec step = {.reads = {X(0)}, .writes = {Y()}, .flops = ProductFlops(y, x.shape.c())};
  if (layer.adds) step.reads.push_back(X(1));
  for (int i = 0; i < 3; ++i) step.reads.push_back(Param(i));
  if (mode == Mode::kInference) {
    step.reads.insert(step.reads.end(), {State(0), State(1)});
    return step;
  }
  step.flops += ProductFlops(x, x.shape.c());
  step.rerun_reads = step.reads;
  for (const Operand saved : {Saved(0), Saved(1), Saved(2)}) {
    step.writes.push_back(saved);
    step.rerun_reads.push_back(saved);
  }
  if (layer.relu) step.writes.push_back(Saved(3));
  step.accumulates = {State(0), State(1)};
  step.accumulates_natively = {Slot::kState};
  return step;
}

StepSpec BackwardActivation(const TensorSpec& y) {
  return {.phase = Phase::kBackwardActivation,
          .reads = {Dy(), Saved(3)},
          .writes = {Dz(), ParamGrad(2)},
          .in_place = {{Dz(), Dy()}},
          .sums_output_grads = true,
          .flops = 2 * static_cast<double>(y.elements())};
}

StepSpec BackwardParams(const TensorSpec& x, const TensorSpec& y, bool relu) {
  StepSpec step = {
      .phase = Phase::kBackwardParams,
      .reads = {X(0), relu ? Dz() : Dy(), Param(0), Param(1), Saved(0), Saved(1), Saved(2)},
      .writes = {ParamGrad(0), ParamGrad(1)},
      .flops = ProductFlops(y, x.shape.c())};
  (relu ? step.reads : step.writes).push_back(ParamGrad(2));
  return step;
}

StepSpec BackwardData(const TensorSpec& x, const TensorSpec& y, bool relu) {
  return {.phase = Phase::kBackwardData,
          .reads = {X(0), relu ? Dz() : Dy(), Param(0), Param(1), Saved(0), Saved(1), ParamGrad(1),
                    ParamGrad(2)},
          .writes = {Dx(0)},
          .flops = ProductFlops(y, x.shape.c()) + ProductFlops(x, x.shape.c())};
}

}  // namespace

bool FoldingGains(const Layer& folded, const LayerContext& context) {
  const TensorSpec& x = context.inputs[0];
  const int64_t channels = x.shape.c(), pixels = x.elements() / channels;
  const int64_t out_channels = folded.As<FoldedConvolution>()->out_channels;
  return out_channels >= FoldedConvolution::kMinOutputsPerInput * channels &&
         pixels >= FoldedConvolution::kMinPixelsPerChannel * channels;
}

std::string FoldedConvolution::Parameters() const {
  return absl::StrCat("out_channels=", out_channels, " ", norm.Parameters(),
                      " adds=", adds ? "true" : "false", " relu=", relu ? "true" : "false");
}

absl::StatusOr<LayerSpec> FoldedConvolution::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, adds ? 2 : 1));
  const TensorSpec& x = context.inputs[0];
  const Convolution convolution = {.out_channels = out_channels, .kernel = 1, .bias = false};
  ASSIGN_OR_RETURN(LayerSpec spec, convolution.Specify({.inputs = {x}, .mode = context.mode}));
  const TensorSpec y = spec.output;
  if (x.layout != Layout::kChannelsLast)
    return absl::InvalidArgumentError("a folded convolution needs images in NHWC");
  if (adds && context.inputs[1] != y) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot add input 1, ", context.inputs[1].ToString(), ", to ", y.ToString()));
  }
  ASSIGN_OR_RETURN(const LayerSpec of_norm, norm.Specify({.inputs = {y}, .mode = context.mode}));
  AppendPersistent(of_norm, /*owner=*/1, spec);
  spec.traits = {.checkpoint = true, .hides_transfers = true, .multiplies = true};
  spec.steps = {Forward(*this, x, y, context.mode)};
  if (context.mode == Mode::kInference) {
    spec.traits.independent_images = true;
    return spec;
  }
  const int64_t channels = x.shape.c();
  spec.saved = {{"mean", VectorSpec(channels)},
                {"invstd", VectorSpec(out_channels)},
                {"cov", VectorSpec(channels * channels)}};
  if (relu) {
    spec.saved.push_back({"mask", MaskSpec(y)});
    spec.steps.push_back(BackwardActivation(y));
  }
  spec.steps.push_back(BackwardParams(x, y, relu));
  spec.steps.push_back(BackwardData(x, y, relu));
  if (adds) spec.passes_linear_grad = 1;
  return spec;
}

}  // namespace neap
