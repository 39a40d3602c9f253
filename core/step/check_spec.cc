#include "neap/core/step/check_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using Slots = absl::Span<const Slot>;

absl::Status Refused(std::string_view what, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(what), " ", std::string(why)));
}

absl::Status CheckTensor(std::string_view what, const TensorSpec& tensor) {
  if (tensor.dtype > DType::kInt32 || tensor.layout > Layout::kChannelsLast)
    return Refused(what, "has an element type or a layout that does not exist");
  const auto& dims = tensor.shape.dims();
  if (dims.empty() || dims.size() > 2 + kMaxSpatialAxes)
    return Refused(what, absl::StrCat("has ", dims.size(), " axes, not 1 to 5"));
  const std::string named = absl::StrCat(std::string(what), " ", tensor.ToString());
  if (std::any_of(dims.begin(), dims.end(), [](int64_t extent) { return extent <= 0; }))
    return Refused(named, "has no elements");
  if (tensor.size_bytes() > kMaxTensorBytes) return Refused(named, "is larger than 16 TiB");
  return absl::OkStatus();
}

absl::Status CheckInit(std::string_view what, const Init& init) {
  if (init.kind <= Init::Kind::kBilinear) return absl::OkStatus();
  return Refused(what, "has an Init::Kind that does not exist");
}

absl::Status CheckTensors(const LayerSpec& spec) {
  RETURN_IF_ERROR(CheckTensor("its output", spec.output));
  for (int i = 1; i < spec.output_count(); ++i)
    RETURN_IF_ERROR(CheckTensor(absl::StrCat("its output ", i), spec.OutputSpec(i)));
  for (const ParamSpec& param : spec.params) {
    const std::string what = absl::StrCat("its parameter '", param.name, "'");
    RETURN_IF_ERROR(CheckTensor(what, param.tensor));
    RETURN_IF_ERROR(CheckInit(what, param.init));
  }
  for (const StateSpec& state : spec.states) {
    const std::string what = absl::StrCat("its state '", state.name, "'");
    RETURN_IF_ERROR(CheckTensor(what, state.tensor));
    RETURN_IF_ERROR(CheckInit(what, state.init));
  }
  for (const SavedSpec& saved : spec.saved)
    RETURN_IF_ERROR(CheckTensor(absl::StrCat("its saved tensor '", saved.name, "'"), saved.tensor));
  return absl::OkStatus();
}

// The operands that steps can have, by what they do with them.
constexpr Slot kForwardReads[] = {Slot::kInput, Slot::kParam, Slot::kState, Slot::kIteration};
constexpr Slot kRerunReads[] = {Slot::kInput, Slot::kParam, Slot::kState, Slot::kIteration,
                                Slot::kSaved};
constexpr Slot kForwardWrites[] = {Slot::kOutput, Slot::kSaved, Slot::kState};
constexpr Slot kForwardAccumulates[] = {Slot::kState};
constexpr Slot kBackwardReads[] = {
    Slot::kInput,      Slot::kOutput, Slot::kOutputGrad, Slot::kParam,     Slot::kParamGrad,
    Slot::kLinearGrad, Slot::kSaved,  Slot::kState,      Slot::kLossScale, Slot::kIteration};
constexpr Slot kBackwardWrites[] = {Slot::kInputGrad, Slot::kParamGrad, Slot::kLinearGrad};
constexpr Slot kBackwardAccumulates[] = {Slot::kParamGrad, Slot::kState};

class StepCheck {
 public:
  StepCheck(const LayerSpec& spec, const LayerContext& context, bool is_loss)
      : spec_(spec), context_(context), is_loss_(is_loss) {}

  absl::Status Check(size_t index) {
    const StepSpec& step = spec_.steps[index];
    if (!IsOfLayer(step.phase))
      return Refused(absl::StrCat("its step ", index), "has a phase that layers do not have");
    what_ = absl::StrCat("its step ", index, ", ", std::string(Name(step.phase)), ",");
    const bool is_forward = step.phase == Phase::kForward;
    if ((index == 0) != is_forward)
      return Refused(what_, "is not in its place: forward comes first, and backward behind it");
    if (!(step.flops >= 0 && std::isfinite(step.flops)))
      return Refused(what_, absl::StrCat("has ", step.flops, " flops"));
    has_linear_grad_ = has_linear_grad_ || step.phase == Phase::kBackwardActivation;
    RETURN_IF_ERROR(
        CheckList("reads", is_forward ? Slots(kForwardReads) : kBackwardReads, step.reads));
    RETURN_IF_ERROR(
        CheckList("writes", is_forward ? Slots(kForwardWrites) : kBackwardWrites, step.writes));
    RETURN_IF_ERROR(CheckList("accumulates",
                              is_forward ? Slots(kForwardAccumulates) : kBackwardAccumulates,
                              step.accumulates));
    RETURN_IF_ERROR(CheckOptional(step));
    return CheckList("reads again", is_forward ? Slots(kRerunReads) : Slots(), step.rerun_reads);
  }

 private:
  absl::Status CheckList(std::string_view does, Slots slots,
                         const std::vector<Operand>& list) const {
    for (size_t i = 0; i < list.size(); ++i) {
      RETURN_IF_ERROR(CheckOperand(does, slots, list[i]));
      if (std::count(list.begin(), list.end(), list[i]) == 1) continue;
      return Refused(what_, absl::StrCat(std::string(does), " ", ToString(list[i]), " twice"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOptional(const StepSpec& step) const {
    for (const Operand operand : step.optional_writes) {
      if (operand.slot == Slot::kInputGrad &&
          std::count(step.writes.begin(), step.writes.end(), operand) == 1)
        continue;
      return Refused(what_, absl::StrCat("leaves out ", ToString(operand),
                                         ", which is no gradient of an input that it writes"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOperand(std::string_view does, Slots slots, Operand operand) const {
    const std::string verb(does);
    if (operand.slot > Slot::kIteration)
      return Refused(what_, absl::StrCat(verb, " an operand whose slot does not exist"));
    const std::string name = ToString(operand);
    const int64_t count = CountOf(operand.slot);
    if (std::count(slots.begin(), slots.end(), operand.slot) == 0 || count == 0)
      return Refused(what_, absl::StrCat(verb, " ", name, ", which it does not have"));
    if (operand.index >= 0 && operand.index < count) return absl::OkStatus();
    return Refused(what_, absl::StrCat(verb, " ", name, ", but the largest index is ", count - 1));
  }

  int64_t CountOf(Slot slot) const {
    switch (slot) {
      case Slot::kInput:
      case Slot::kInputGrad:
        return std::ssize(context_.inputs);
      case Slot::kParam:
      case Slot::kParamGrad:
        return std::ssize(spec_.params);
      case Slot::kSaved:
        return std::ssize(spec_.saved);
      case Slot::kState:
        return std::ssize(spec_.states);
      case Slot::kOutput:
        return spec_.output_count();
      case Slot::kOutputGrad:
        return is_loss_ ? 0 : spec_.output_count();
      case Slot::kLinearGrad:  // from backward_activation on
        return has_linear_grad_ ? 1 : 0;
      case Slot::kLossScale:
        return context_.scales_loss ? 1 : 0;
      default:
        return 1;
    }
  }

  const LayerSpec& spec_;
  const LayerContext& context_;
  const bool is_loss_;
  bool has_linear_grad_ = false;
  std::string what_;
};

// What only the gradient of one output can be used for.
absl::Status CheckOutputs(const LayerSpec& spec, bool is_loss) {
  if (spec.output_count() == 1) return absl::OkStatus();
  const std::string what = absl::StrCat("a layer with ", spec.output_count(), " outputs");
  if (is_loss) return Refused(what, "is not a loss");
  if (spec.passes_gradient || spec.passes_linear_grad.has_value())
    return Refused(what, "does not pass a gradient on");
  for (int i = 0; i < spec.output_count() && !spec.steps.empty(); ++i) {
    const std::vector<Operand>& written = spec.steps[0].writes;
    if (std::count(written.begin(), written.end(), Operand{Slot::kOutput, i}) == 0)
      return Refused("its forward step", absl::StrCat("does not write output ", i));
  }
  for (const StepSpec& step : spec.steps) {
    if (step.phase == Phase::kBackwardActivation)
      return Refused(what, "has no backward_activation");
    if (step.sums_output_grads) return Refused(what, "does not sum gradients of its output");
    if (!step.summed.empty()) return Refused(what, "computes no sums over the ranks");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSpec(const LayerSpec& spec, const LayerContext& context, bool is_loss) {
  RETURN_IF_ERROR(CheckTensors(spec));
  RETURN_IF_ERROR(CheckOutputs(spec, is_loss));
  StepCheck check(spec, context, is_loss);
  for (size_t i = 0; i < spec.steps.size(); ++i) RETURN_IF_ERROR(check.Check(i));
  const std::optional<int> passed = spec.passes_linear_grad;
  const bool exists = !passed.has_value() || (*passed >= 0 && *passed < std::ssize(context.inputs));
  if (!exists)
    return Refused("its", absl::StrCat("passes_linear_grad is ", *passed, ", which is no input"));
  if (is_loss && (spec.passes_gradient || passed.has_value()))
    return Refused("a loss", "has no gradient of its output to pass on");
  return absl::OkStatus();
}

}  // namespace neap
