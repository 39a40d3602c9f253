#include "neap/layers/fusion/norm_pass.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"
#include "neap/layers/join.h"

namespace neap {
namespace {

using namespace operands;

void InsertBehindFirst(std::vector<Operand>& operands, Operand operand) {
  operands.insert(operands.begin() + 1, operand);
}

// Adds input 1, which backward does not read.
void AddInput(double elements, LayerSpec& spec) {
  for (StepSpec& step : spec.steps) {
    step.flops += elements;
    if (step.phase != Phase::kForward) {
      InsertBehindFirst(step.writes, Dx(1));
      step.sums_output_grads = true;
      step.in_place = {{Dx(1), Dy()}, {Dx(0), X(0)}};
      continue;
    }
    InsertBehindFirst(step.reads, X(1));
    if (!step.rerun_reads.empty()) InsertBehindFirst(step.rerun_reads, X(1));
    step.in_place.emplace_back(Y(), X(1));
  }
  spec.traits.checkpoint = true;  // as Add
}

// `operand` of the second of two batch norms, whose parameters, states and saved tensors follow
// those of the first.
Operand OfSecond(Operand operand) {
  switch (operand.slot) {
    case Slot::kParam:
    case Slot::kParamGrad:
    case Slot::kState:
    case Slot::kSaved:
      return {operand.slot, operand.index + 2};
    default:
      return operand;
  }
}
void AppendSecond(const std::vector<Operand>& of_second, std::vector<Operand>& operands) {
  for (Operand operand : of_second) {
    if (OfSecond(operand) != operand) operands.push_back(OfSecond(operand));
  }
}

// Normalises input 1 by `second`, the spec of a batch norm.
void NormaliseAddend(LayerSpec second, LayerSpec& spec) {
  AppendPersistent(second, /*owner=*/1, spec);
  for (SavedSpec& saved : second.saved)
    spec.saved.push_back({absl::StrCat("addend_", saved.name), std::move(saved.tensor)});
  for (size_t i = 0; i < spec.steps.size(); ++i) {
    StepSpec& step = spec.steps[i];
    const StepSpec& other = second.steps[i];
    AppendSecond(other.reads, step.reads);
    AppendSecond(other.writes, step.writes);
    AppendSecond(other.accumulates, step.accumulates);
    AppendSecond(other.rerun_reads, step.rerun_reads);
    step.sums_output_grads = false;  // it has the operands of two batch norms already
    step.flops += other.flops;
    if (step.phase != Phase::kForward) InsertBehindFirst(step.reads, X(1));
  }
}

// Replaces operand 0 of a slot by all `count` of them.
void RepeatFirst(Operand first, size_t count, std::vector<Operand>& operands) {
  const auto found = std::find(operands.begin(), operands.end(), first);
  if (found == operands.end()) return;
  const auto at = operands.erase(found) - operands.begin();
  for (size_t i = count; i-- > 0;)
    operands.insert(operands.begin() + at, {first.slot, static_cast<int>(i)});
}

// Makes `count` inputs of the only one.
void ConcatenateInputs(size_t count, LayerSpec& spec) {
  for (StepSpec& step : spec.steps) {
    RepeatFirst(X(), count, step.reads);
    RepeatFirst(X(), count, step.rerun_reads);
    RepeatFirst(Dx(), count, step.writes);
    step.in_place.clear();
    if (step.phase == Phase::kBackwardData) step.accumulates_natively = {Slot::kInputGrad};
  }
}

// Saves `tensor`, which says where y is 0, for backward.
void SaveZeros(SavedSpec tensor, LayerSpec& spec) {
  const Operand operand = Saved(static_cast<int>(spec.saved.size()));
  spec.saved.push_back(std::move(tensor));
  for (StepSpec& step : spec.steps)
    (step.phase == Phase::kForward ? step.writes : step.reads).push_back(operand);
}

// Makes `pooled`, the spec of a pooling alone, the last part of the layer.
void Pool(const LayerSpec& pooled, LayerSpec& spec) {
  spec.output = pooled.output;
  for (size_t i = 0; i < spec.steps.size(); ++i) {
    spec.steps[i].in_place.clear();
    spec.steps[i].flops += pooled.steps[i].flops;
  }
}

// The x that is normalised.
absl::StatusOr<TensorSpec> NormalisedOf(const NormPass& layer, const LayerContext& context) {
  if (!layer.concatenates) {
    RETURN_IF_ERROR(CheckSpatialInputs(context, layer.adds() ? 2 : 1));
    return context.inputs[0];
  }
  if (context.inputs.size() > NormPass::kMaxParts) {
    return absl::InvalidArgumentError(absl::StrCat("a norm pass concatenates at most ",
                                                   NormPass::kMaxParts, " inputs, not ",
                                                   context.inputs.size()));
  }
  return ConcatenationOf(context);
}

absl::Status CheckCombination(const NormPass& layer, const LayerContext& context) {
  if (!layer.HasKernels()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are no kernels for a norm pass with ", layer.Parameters()));
  }
  const int axes = context.inputs.empty() ? 0 : context.inputs[0].shape.spatial_axes();
  if (layer.pool() == nullptr || CanPoolRelu(*layer.pool(), axes)) return absl::OkStatus();
  return absl::InvalidArgumentError("a norm pass pools in windows of at most 255 elements");
}

std::optional<Layer> ActivationOf(const NormPass& layer) {
  return std::visit(
      []<typename Definition>(const Definition& definition) -> std::optional<Layer> {
        if constexpr (std::is_same_v<Definition, std::monostate>) {
          return std::nullopt;
        } else {
          return definition;
        }
      },
      layer.activation);
}

// Whether it is none or a ReLU.
bool HasSimpleActivation(const NormPass& layer) {
  return layer.relu() || std::holds_alternative<std::monostate>(layer.activation);
}

const char* TrueOrFalse(bool value) { return value ? "true" : "false"; }

}  // namespace

int64_t MaskElements(DType dtype) { return 16 / SizeOf(dtype); }

TensorSpec MaskSpec(const TensorSpec& y) {
  const int64_t elements = MaskElements(y.dtype);
  TensorSpec mask = VectorSpec((y.elements() + elements - 1) / elements);
  mask.dtype = DType::kUInt8;
  return mask;
}

bool NormPass::HasKernels() const {
  if (!HasSimpleActivation(*this)) return *this == NormPass{.norm = norm, .activation = activation};
  if (pool() != nullptr) return relu() && !adds() && !concatenates;
  return !concatenates || (!adds() && !averages());
}

Operand NormPass::MaskOrIndex() const { return Saved(addend_norm() != nullptr ? 4 : 2); }

std::string NormPass::Parameters() const {
  std::string text = norm.Parameters();
  if (HasSimpleActivation(*this)) {
    absl::StrAppend(&text, " adds=", TrueOrFalse(adds()), " relu=", TrueOrFalse(relu()));
  } else {
    const Layer layer = *ActivationOf(*this);
    const std::string parameters = layer.Parameters();
    absl::StrAppend(&text, " activation=", std::string(layer.type()),
                    parameters.empty() ? "" : absl::StrCat("(", parameters, ")"),
                    adds() ? " adds=true" : "");
  }
  if (addend_norm() != nullptr)
    absl::StrAppend(&text, " addend_norm=(", addend_norm()->Parameters(), ")");
  if (pool() != nullptr) absl::StrAppend(&text, " pool=(", pool()->Parameters(), ")");
  if (averages()) absl::StrAppend(&text, " averages=true");
  if (concatenates) absl::StrAppend(&text, " concatenates=true");
  return text;
}

absl::StatusOr<LayerSpec> NormPass::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckCombination(*this, context));
  ASSIGN_OR_RETURN(const TensorSpec x, NormalisedOf(*this, context));
  if (adds() && context.inputs[1] != x) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot add input 1, ", context.inputs[1].ToString(), ", to input 0, ", x.ToString()));
  }
  const LayerContext alone = {.inputs = {x}, .mode = context.mode};
  ASSIGN_OR_RETURN(LayerSpec spec, norm.Specify(alone));
  if (concatenates) ConcatenateInputs(context.inputs.size(), spec);
  if (adds()) AddInput(static_cast<double>(x.elements()), spec);
  if (addend_norm() != nullptr) {
    ASSIGN_OR_RETURN(LayerSpec second, addend_norm()->Specify(alone));
    NormaliseAddend(std::move(second), spec);
  }
  const bool training = context.mode == Mode::kTraining;
  if (averages()) {
    ASSIGN_OR_RETURN(const LayerSpec pooled, GlobalAveragePool{}.Specify(alone));
    Pool(pooled, spec);
    if (training) {
      spec.steps[1].in_place = {{Dx(0), X(0)}};
      spec.steps[1].sums_output_grads = false;
    }
  }
  const std::optional<Layer> last = ActivationOf(*this);
  if (!last.has_value()) return spec;
  ASSIGN_OR_RETURN(const LayerSpec activated, last->Specify(alone));
  for (size_t i = 0; i < spec.steps.size(); ++i) spec.steps[i].flops += activated.steps[i].flops;
  if (pool() != nullptr) {
    ASSIGN_OR_RETURN(LayerSpec pooled, pool()->Specify(alone));
    Pool(pooled, spec);
    if (training) SaveZeros(std::move(pooled.saved[0]), spec);
  } else if (training) {
    adds() ? SaveZeros({"mask", MaskSpec(x)}, spec) : spec.steps[1].reads.push_back(Param(1));
  }
  return spec;
}

NormPass NormPassOf(const Layer& layer) {
  const BatchNorm* const alone = layer.As<BatchNorm>();
  return alone != nullptr ? NormPass{.norm = *alone} : *layer.As<NormPass>();
}

const TensorSpec& NormalisedSpec(const StepSignature& signature) {
  if (!NormPassOf(signature.layer).concatenates) return signature.Spec(X());
  return signature.Spec(signature.phase == Phase::kForward ? Y() : Dy());
}

}  // namespace neap
