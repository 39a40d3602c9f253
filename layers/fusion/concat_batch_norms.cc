#include "neap/layers/fusion/concat_batch_norms.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"
#include "neap/layers/join.h"

namespace neap {
namespace {

using namespace operands;

// The positions of inputs that are not normalised are those that no part has.
bool HasPart(const ConcatBatchNorms& layer, int position) {
  return std::any_of(layer.parts.begin(), layer.parts.end(),
                     [=](const auto& part) { return part.position == position; });
}
absl::Status CheckPositions(const ConcatBatchNorms& layer, size_t inputs) {
  std::vector<int> positions;
  for (const ConcatBatchNorms::Part& part : layer.parts) positions.push_back(part.position);
  std::sort(positions.begin(), positions.end());
  const bool distinct = std::adjacent_find(positions.begin(), positions.end()) == positions.end();
  const bool in_range = positions.empty() ||
                        (positions.front() >= 0 && static_cast<size_t>(positions.back()) < inputs);
  if (distinct && in_range) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the parts of a concatenation of ", inputs, " inputs have wrong positions"));
}

// Adds the batch norm of input `i` to the steps. `norm` is its spec alone.
void AddPart(const LayerSpec& norm, int i, bool relu, LayerSpec& spec) {
  const auto of_part = [i](Operand operand) -> Operand {
    const bool is_image = operand.slot == Slot::kInput || operand.slot == Slot::kInputGrad;
    if (is_image) return {operand.slot, i};
    const bool is_shared = operand.slot == Slot::kOutput || operand.slot == Slot::kOutputGrad;
    return is_shared ? operand : Operand{operand.slot, 2 * i + operand.index};
  };
  const auto append = [&](const std::vector<Operand>& from, std::vector<Operand>& to) {
    for (Operand operand : from) {
      const Operand own = of_part(operand);
      if (std::find(to.begin(), to.end(), own) == to.end()) to.push_back(own);
    }
  };
  for (size_t s = 0; s < norm.steps.size(); ++s) {
    StepSpec& step = spec.steps[s];
    append(norm.steps[s].reads, step.reads);
    append(norm.steps[s].writes, step.writes);
    append(norm.steps[s].accumulates, step.accumulates);
    append(norm.steps[s].rerun_reads, step.rerun_reads);
    step.flops += norm.steps[s].flops;
    if (relu && step.phase != Phase::kForward) step.reads.push_back(Param(2 * i + 1));
  }
  AppendPersistent(norm, /*owner=*/i, spec);
  spec.values_per_variance = norm.values_per_variance;  // the same for all parts
  for (const SavedSpec& saved : norm.saved)
    spec.saved.push_back({absl::StrCat(saved.name, i), saved.tensor});
}

}  // namespace

int FreePosition(const ConcatBatchNorms& layer, size_t number) {
  int position = 0;
  while (HasPart(layer, position) || number-- > 0) ++position;
  return position;
}

std::string ConcatBatchNorms::Parameters() const {
  std::string text;
  for (const Part& part : parts) {
    absl::StrAppend(&text, text.empty() ? "" : " ", "part", part.position, "=(",
                    part.norm.Parameters(), " relu=", part.relu ? "true" : "false", ")");
  }
  return text;
}

std::vector<ConcatInput> ConcatInputs(const ConcatBatchNorms& layer,
                                      const std::vector<int64_t>& channels) {
  std::vector<ConcatInput> inputs(channels.size());
  std::vector<size_t> at(channels.size());  // the input in each position
  for (size_t i = 0; i < channels.size(); ++i) {
    const bool normalised = i < layer.parts.size();
    inputs[i] = {normalised ? &layer.parts[i] : nullptr, channels[i]};
    at[static_cast<size_t>(normalised ? layer.parts[i].position
                                      : FreePosition(layer, i - layer.parts.size()))] = i;
  }
  int64_t first = 0;
  for (size_t input : at) {
    inputs[input].first = first;
    first += channels[input];
  }
  return inputs;
}

std::vector<ConcatInput> ConcatInputs(const ConcatBatchNorms& layer,
                                      const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  std::vector<int64_t> channels;
  for (int i = 0; signature.Has(forward ? X(i) : Dx(i)); ++i)
    channels.push_back(signature.Spec(forward ? X(i) : Dx(i)).shape.c());
  return ConcatInputs(layer, channels);
}

absl::StatusOr<LayerSpec> ConcatBatchNorms::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckPositions(*this, context.inputs.size()));
  ASSIGN_OR_RETURN(LayerSpec spec, Concat{}.Specify(context));
  for (size_t i = 0; i < parts.size(); ++i) {
    const TensorSpec& x = context.inputs[i];
    ASSIGN_OR_RETURN(const LayerSpec norm,
                     parts[i].norm.Specify({.inputs = {x}, .mode = context.mode}));
    if (i == 0 && context.mode == Mode::kTraining) {
      spec.steps[0].rerun_reads = spec.steps[0].reads;
      spec.steps[0].accumulates_natively = {Slot::kState};
    }
    AddPart(norm, static_cast<int>(i), parts[i].relu, spec);
  }
  spec.traits.coupled_by_statistics = !parts.empty() && context.mode == Mode::kTraining;
  spec.traits.independent_images = !spec.traits.coupled_by_statistics;
  return spec;
}

}  // namespace neap
