#include "neap/core/step/signature_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/step/operands.h"

namespace neap {
namespace {

using namespace operands;

bool CanCarryBatch(const OperandSpec& operand) {
  switch (operand.operand.slot) {
    case Slot::kInput:
    case Slot::kOutput:
    case Slot::kInputGrad:
    case Slot::kOutputGrad:
    case Slot::kLinearGrad:
    case Slot::kAddend:
      return operand.tensor.shape.rank() > 0;
    default:
      return false;
  }
}

bool Precedes(const OperandSpec& a, const OperandSpec& b) {
  return std::pair(a.operand.slot, a.operand.index) < std::pair(b.operand.slot, b.operand.index);
}

std::optional<int64_t> Batch(const StepSignature& signature) {
  const OperandSpec* first = nullptr;
  for (const OperandSpec& operand : signature.operands) {
    if (CanCarryBatch(operand) && (first == nullptr || Precedes(operand, *first))) first = &operand;
  }
  return first == nullptr ? std::nullopt : std::optional(first->tensor.shape[0]);
}

bool CarriesBatch(const OperandSpec& operand, std::optional<int64_t> batch) {
  return CanCarryBatch(operand) && operand.tensor.shape[0] == batch;
}

std::string_view Sign(Access access) {
  switch (access) {
    case Access::kRead:
      return "=";
    case Access::kWrite:
      return ":=";
    case Access::kAccumulate:
      return "+=";
  }
  return "";
}

// " input[0]=Nx64x56x56:fp32:nchw"
std::string Text(const OperandSpec& operand, std::optional<int64_t> batch) {
  const TensorSpec& tensor = operand.tensor;
  std::string shape = tensor.shape.ToString();
  if (CarriesBatch(operand, batch))
    shape = absl::StrCat("N", shape.substr(absl::StrCat(*batch).size()));
  return absl::StrCat(" ", ToString(operand.operand), std::string(Sign(operand.access)), shape, ":",
                      std::string(Name(tensor.dtype)), ":", std::string(tensor.layout_name()));
}

// "TYPE PHASE MODE [rerun] [PARAMETERS]"
std::string StepText(const StepSignature& signature) {
  const bool of_layer = IsOfLayer(signature.phase);  // others are the same for every layer
  const bool as_training = signature.mode == Mode::kTraining || IsDivisible(signature);
  std::string text =
      absl::StrCat(std::string(TypeOf(signature.layer, signature.phase, signature.optimizer)), " ",
                   std::string(Name(signature.phase)), as_training ? " training" : " inference");
  if (signature.rerun) text += " rerun";
  const std::string parameters = of_layer ? signature.layer.Parameters() : "";
  if (!parameters.empty()) absl::StrAppend(&text, " ", parameters);
  return text;
}

// The operands in the text of the sum of two gradients.
std::vector<OperandSpec> OperandsOfSum(const TensorSpec& gradient) {
  return {{X(0), gradient, Access::kRead},
          {X(1), gradient, Access::kRead},
          {Y(), gradient, Access::kWrite}};
}

}  // namespace

std::string SignatureText(const StepSignature& signature) {
  const bool adds = signature.phase == Phase::kAddGradients;
  std::string text = adds ? "add forward training" : StepText(signature);
  std::vector<OperandSpec> operands =
      adds ? OperandsOfSum(signature.Spec(Dx())) : signature.operands;
  std::stable_sort(operands.begin(), operands.end(), Precedes);
  const std::optional<int64_t> batch = Batch(signature);
  for (const OperandSpec& operand : operands) text += Text(operand, batch);
  return text;
}

int64_t BatchOf(const StepSignature& signature) { return Batch(signature).value_or(1); }

StepSignature WithBatch(StepSignature signature, int64_t batch) {
  const std::optional<int64_t> old = Batch(signature);
  for (OperandSpec& operand : signature.operands) {
    if (CarriesBatch(operand, old)) operand.tensor = WithFirstExtent(operand.tensor, batch);
  }
  return signature;
}

}  // namespace neap
