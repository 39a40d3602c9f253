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

// `params` is the number of parameters.
StepSpec Forward(int params, Mode mode, double elements) {
  StepSpec forward = {.reads = {X()},
                      .writes = {Y()},
                      .in_place = {{Y(), X()}},
                      .flops = kForwardFlopsPerElement * elements};
  for (int i = 0; i < params; ++i) forward.reads.push_back(Param(i));
  if (mode == Mode::kInference) return forward;
  forward.rerun_reads = forward.reads;
  forward.rerun_reads.insert(forward.rerun_reads.end(), {Saved(0), Saved(1)});
  forward.writes.insert(forward.writes.end(), {Saved(0), Saved(1)});
  return forward;
}

StepSpec Backward(int params, double elements) {
  StepSpec backward = {.phase = Phase::kBackwardData,
                       .reads = {X(), Dy()},
                       .writes = {Dx()},
                       .in_place = {{Dx(), Dy()}},
                       .flops = kBackwardFlopsPerElement * elements};
  for (int i = 0; i < params; ++i) backward.writes.push_back(ParamGrad(i));
  if (params > 0) {
    backward.reads.push_back(Param(0));
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

std::vector<ParamSpec> NormParams(int64_t channels, bool affine, bool bias) {
  const TensorSpec per_channel = VectorSpec(channels);
  std::vector<ParamSpec> params;
  if (affine) params.push_back({"weight", per_channel, {Init::Kind::kConstant, 1}});
  if (affine && bias) params.push_back({"bias", per_channel, {Init::Kind::kConstant, 0}});
  return params;
}

LayerSpec ImageNormSpec(const TensorSpec& x, const Shape& statistics, std::vector<ParamSpec> params,
                        Mode mode) {
  const auto count = static_cast<int>(params.size());
  LayerSpec spec = {
      .output = x, .params = std::move(params), .traits = {.independent_images = true}};
  const double elements = static_cast<double>(x.elements());
  spec.steps = {Forward(count, mode, elements)};
  if (mode == Mode::kInference) return spec;
  spec.saved = {{"mean", {.shape = statistics}}, {"invstd", {.shape = statistics}}};
  spec.steps.push_back(Backward(count, elements));
  return spec;
}

}  // namespace neap
