#include "neap/layers/steps/norm_steps.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

constexpr double kForwardFlopsPerElement = 6;
constexpr double kBackwardFlopsPerElement = 10;

StepSpec Forward(bool affine, Mode mode, double elements) {
  StepSpec forward = {.reads = {X()},
                      .writes = {Y()},
                      .in_place = {{Y(), X()}},
                      .flops = kForwardFlopsPerElement * elements};
  if (affine) forward.reads.insert(forward.reads.end(), {Param(0), Param(1)});
  if (mode == Mode::kInference) return forward;
  forward.rerun_reads = forward.reads;
  forward.rerun_reads.insert(forward.rerun_reads.end(), {Saved(0), Saved(1)});
  forward.writes.insert(forward.writes.end(), {Saved(0), Saved(1)});
  return forward;
}

StepSpec Backward(bool affine, double elements) {
  StepSpec backward = {.phase = Phase::kBackwardData,
                       .reads = {X(), Dy()},
                       .writes = {Dx()},
                       .in_place = {{Dx(), Dy()}},
                       .flops = kBackwardFlopsPerElement * elements};
  if (affine) {
    backward.reads.push_back(Param(0));
    backward.writes.insert(backward.writes.end(), {ParamGrad(0), ParamGrad(1)});
    backward.accumulates_natively = {Slot::kParamGrad};
  }
  backward.reads.insert(backward.reads.end(), {Saved(0), Saved(1)});
  return backward;
}

}  // namespace

absl::Status CheckEpsilon(float epsilon) {
  if (epsilon > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("epsilon ", epsilon, " must be positive"));
}

std::vector<ParamSpec> NormParams(int64_t channels) {
  const TensorSpec per_channel = VectorSpec(channels);
  return {{"weight", per_channel, {Init::Kind::kConstant, 1}},
          {"bias", per_channel, {Init::Kind::kConstant, 0}}};
}

LayerSpec ImageNormSpec(const TensorSpec& x, const Shape& statistics, bool affine, Mode mode) {
  LayerSpec spec = {.output = x, .traits = {.independent_images = true}};
  if (affine) spec.params = NormParams(x.shape.c());
  const double elements = static_cast<double>(x.elements());
  spec.steps = {Forward(affine, mode, elements)};
  if (mode == Mode::kInference) return spec;
  spec.saved = {{"mean", {.shape = statistics}}, {"invstd", {.shape = statistics}}};
  spec.steps.push_back(Backward(affine, elements));
  return spec;
}

}  // namespace neap
