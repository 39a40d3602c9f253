#include "neap/layers/catalog/custom_kernel.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/step/specify.h"
#include "neap/layers/catalog/engine_id.h"

namespace neap {
namespace {

bool IsFor(const CustomKernel& kernel, std::string_view layer_type, Phase phase) {
  return kernel.layer_type == layer_type && kernel.phase == phase;
}

absl::Status Refused(const CustomKernel& kernel, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the kernel registered for ", kernel.layer_type,
                                                 " ", std::string(Name(kernel.phase)), ": ",
                                                 std::string(why)));
}

absl::Status CheckAlone(const CustomKernel& kernel) {
  if (kernel.layer_type.empty()) return Refused(kernel, "its layer_type is empty");
  if (!IsOfLayer(kernel.phase)) return Refused(kernel, "layers have no such phase");
  if (kernel.engine.empty()) return Refused(kernel, "its engine has no id");
  if (kernel.run != nullptr && kernel.make != nullptr)
    return Refused(kernel, "it has both run and make");
  return absl::OkStatus();
}

// A kernel adds to an operand only if its layer says so; otherwise it overwrites what is there.
absl::Status CheckAccess(const CustomKernel& kernel, const StepSignature& signature) {
  for (const OperandSpec& operand : signature.operands) {
    const bool is_addend = operand.operand.slot == Slot::kAddend;
    if (is_addend && !kernel.takes_addends) {
      return absl::UnimplementedError(absl::StrCat(
          "the kernel registered for ", kernel.layer_type, " ", std::string(Name(kernel.phase)),
          " does not add ", ToString(operand.operand), ": its takes_addends is false"));
    }
    if (operand.access != Access::kAccumulate || signature.CanAccumulate(operand.operand.slot))
      continue;
    return absl::UnimplementedError(absl::StrCat(
        "the kernel registered for ", kernel.layer_type, " ", std::string(Name(kernel.phase)),
        " does not accumulate ", ToString(operand.operand),
        ": the step's accumulates_natively lacks the slot"));
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const CustomKernel& kernel, const StepSignature& signature) {
  for (const OperandSpec& operand : signature.operands) {
    if (kernel.takes_16_bits || !Is16Bit(operand.tensor.dtype)) continue;
    return absl::UnimplementedError(absl::StrCat(
        "the kernel registered for ", kernel.layer_type, " ", std::string(Name(kernel.phase)),
        " does not take ", std::string(Name(operand.tensor.dtype)), " operands such as ",
        ToString(operand.operand), ": its takes_16_bits is false"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Engine> EngineOf(const CustomKernel& kernel, const StepSignature& signature) {
  RETURN_IF_ERROR(CheckAccess(kernel, signature));
  RETURN_IF_ERROR(CheckTypes(kernel, signature));
  Engine engine = EngineFromText(kernel.engine);
  if (kernel.workspace_bytes == nullptr) return engine;
  const auto ask = [&] { return kernel.workspace_bytes(signature); };
  ASSIGN_OR_RETURN(engine.workspace_bytes,
                   WithoutThrowing(absl::StrCat("workspace_bytes of ", kernel.layer_type, " ",
                                                std::string(Name(kernel.phase))),
                                   ask));
  if (engine.workspace_bytes >= 0 && engine.workspace_bytes <= kMaxTensorBytes) return engine;
  return absl::InvalidArgumentError(absl::StrCat(
      "the kernel registered for ", kernel.layer_type, " ", std::string(Name(kernel.phase)),
      " wants ", engine.workspace_bytes, " bytes of workspace, which is ",
      engine.workspace_bytes < 0 ? "negative" : "more than 16 TiB"));
}

const CustomKernel* FindKernel(absl::Span<const CustomKernel> kernels,
                               const StepSignature& signature) {
  for (const CustomKernel& kernel : kernels) {
    if (IsFor(kernel, signature.layer.type(), signature.phase)) return &kernel;
  }
  return nullptr;
}

absl::Status CheckCustomKernels(absl::Span<const CustomKernel> kernels) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    RETURN_IF_ERROR(CheckAlone(kernels[i]));
    for (size_t before = 0; before < i; ++before) {
      if (IsFor(kernels[before], kernels[i].layer_type, kernels[i].phase))
        return Refused(kernels[i], "the step already has a kernel");
    }
  }
  return absl::OkStatus();
}

}  // namespace neap
