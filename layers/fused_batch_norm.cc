#include "neap/layers/fused_batch_norm.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"
#include "neap/layers/activation.h"
#include "neap/layers/join.h"

namespace neap {
namespace {

using namespace operands;

// Input 1 is read right after input 0, wherever that is read.
void ReadAddend(std::vector<Operand>& reads) { reads.insert(reads.begin() + 1, X(1)); }

void AddInput(std::vector<StepSpec>& steps, double elements) {
  for (StepSpec& step : steps) {
    step.flops += elements;
    if (step.phase != Phase::kForward) {
      step.writes.insert(step.writes.begin() + 1, Dx(1));
      step.in_place = {{Dx(1), Dy()}, {Dx(0), X(0)}};
      continue;
    }
    ReadAddend(step.reads);
    if (!step.rerun_reads.empty()) ReadAddend(step.rerun_reads);
    step.in_place = {{Y(), X(1)}};
  }
}

}  // namespace

std::string FusedBatchNorm::Parameters() const {
  return absl::StrCat(norm.Parameters(), " adds=", adds ? "true" : "false",
                      " relu=", relu ? "true" : "false");
}

absl::StatusOr<LayerSpec> FusedBatchNorm::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckImageInputs(context, adds ? 2 : 1));
  const TensorSpec& x = context.inputs[0];
  if (adds && context.inputs[1] != x) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot add input 1, ", context.inputs[1].ToString(), ", to input 0, ", x.ToString()));
  }
  ASSIGN_OR_RETURN(LayerSpec spec, norm.Specify({.inputs = {x}, .mode = context.mode}));
  const double elements = static_cast<double>(x.elements());
  if (adds) AddInput(spec.steps, elements);
  spec.traits.checkpoint = adds;  // as Add
  if (!relu) return spec;
  for (StepSpec& step : spec.steps) {
    step.flops += elements;
    if (step.phase != Phase::kForward) step.reads.push_back(adds ? Y() : Param(1));
  }
  return spec;
}

std::optional<Layer> FusedBatchNorm::FusedWith(const Layer& reader) const {
  FusedBatchNorm fused = *this;
  if (relu) return std::nullopt;
  if (reader.As<Relu>() != nullptr) {
    fused.relu = true;
    return fused;
  }
  if (reader.As<Add>() == nullptr || adds) return std::nullopt;
  fused.adds = true;
  return fused;
}

std::optional<Layer> BatchNorm::FusedWith(const Layer& reader) const {
  return FusedBatchNorm{.norm = *this}.FusedWith(reader);
}

FusedBatchNorm FusedBatchNormOf(const Layer& layer) {
  const BatchNorm* const alone = layer.As<BatchNorm>();
  return alone != nullptr ? FusedBatchNorm{.norm = *alone} : *layer.As<FusedBatchNorm>();
}

}  // namespace neap
