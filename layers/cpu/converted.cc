#include "neap/layers/cpu/converted.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/step/specify.h"
#include "neap/layers/cpu/onednn.h"

namespace neap::cpu {
namespace {

bool HasHalf(const StepSignature& signature) {
  return std::any_of(signature.operands.begin(), signature.operands.end(),
                     [](const OperandSpec& operand) { return Is16Bit(operand.tensor.dtype); });
}

int64_t ConvertedBytes(const TensorSpec& tensor) {
  return RoundUp(tensor.elements() * int64_t{sizeof(float)}, kWorkspaceAlignment);
}

template <typename T>
void ToFloats(const void* from, int64_t count, float* to) {
  const T* const values = static_cast<const T*>(from);
  std::transform(values, values + count, to, [](T value) { return static_cast<float>(value); });
}
template <typename T>
void FromFloats(const float* from, int64_t count, void* to) {
  std::transform(from, from + count, static_cast<T*>(to), [](float value) { return T(value); });
}

// Adds `terms` as if they had been stored before.
template <typename T>
void AddFloats(const float* terms, int64_t count, void* to) {
  T* const sums = static_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i)
    sums[i] = T(static_cast<float>(sums[i]) + static_cast<float>(T(terms[i])));
}

// Whether the kernel adds to the gradient of an input. Other operands that are accumulated, such as
// a slice of a parameter, get a new value that the kernel computes from the old one.
bool IsSum(const OperandSpec& operand) {
  return operand.access == Access::kAccumulate && operand.operand.slot == Slot::kInputGrad;
}

template <typename T>
void Store(const OperandSpec& operand, const float* floats, void* to) {
  const int64_t count = operand.tensor.elements();
  IsSum(operand) ? AddFloats<T>(floats, count, to) : FromFloats<T>(floats, count, to);
}

class ConvertedKernel final : public Kernel {
 public:
  ConvertedKernel(StepSignature signature, std::unique_ptr<Kernel> kernel, int64_t kernel_bytes)
      : signature_(std::move(signature)), kernel_(std::move(kernel)), kernel_bytes_(kernel_bytes) {}

  absl::Status Run(const KernelArgs& args) override {
    std::vector<void*> operands(args.operands.begin(), args.operands.end());
    auto* free = static_cast<std::byte*>(args.workspace) + kernel_bytes_;
    for (size_t i = 0; i < operands.size(); ++i) {
      const OperandSpec& operand = signature_.operands[i];
      if (!Is16Bit(operand.tensor.dtype)) continue;
      auto* const floats = reinterpret_cast<float*>(free);
      free += ConvertedBytes(operand.tensor);
      operands[i] = floats;
      if (operand.access == Access::kWrite) continue;
      const int64_t count = operand.tensor.elements();
      if (IsSum(operand)) {
        std::fill_n(floats, count, -0.0F);  // to which any term, also -0, adds as itself
        continue;
      }
      operand.tensor.dtype == DType::kFp16 ? ToFloats<Fp16>(args.operands[i], count, floats)
                                           : ToFloats<Bf16>(args.operands[i], count, floats);
    }
    RETURN_IF_ERROR(kernel_->Run(
        {.operands = operands, .workspace = args.workspace, .workspace_bytes = kernel_bytes_}));
    for (size_t i = 0; i < operands.size(); ++i) {
      const OperandSpec& operand = signature_.operands[i];
      if (operands[i] == args.operands[i] || operand.access == Access::kRead) continue;
      const auto* const floats = static_cast<const float*>(operands[i]);
      operand.tensor.dtype == DType::kFp16 ? Store<Fp16>(operand, floats, args.operands[i])
                                           : Store<Bf16>(operand, floats, args.operands[i]);
    }
    return absl::OkStatus();
  }

 private:
  StepSignature signature_;
  std::unique_ptr<Kernel> kernel_;
  int64_t kernel_bytes_;
};

Candidate Wrapped(const StepSignature& signature, Candidate candidate) {
  const int64_t kernel_bytes = RoundUp(candidate.engine.workspace_bytes, kWorkspaceAlignment);
  Candidate wrapped = {.engine = candidate.engine, .make = nullptr};
  wrapped.engine.workspace_bytes = kernel_bytes;
  for (const OperandSpec& operand : signature.operands) {
    if (Is16Bit(operand.tensor.dtype))
      wrapped.engine.workspace_bytes += ConvertedBytes(operand.tensor);
  }
  wrapped.make = [signature, kernel_bytes,
                  make = std::move(candidate.make)]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, make());
    return std::make_unique<ConvertedKernel>(signature, std::move(kernel), kernel_bytes);
  };
  return wrapped;
}

bool IsBf16(const StepSignature& signature) {
  return std::none_of(
      signature.operands.begin(), signature.operands.end(),
      [](const OperandSpec& operand) { return operand.tensor.dtype == DType::kFp16; });
}

StepSignature InFp32(StepSignature signature) {
  for (OperandSpec& operand : signature.operands)
    operand.tensor = InFullPrecision(std::move(operand.tensor));
  return signature;
}

Candidates Wrapped(const StepSignature& signature, Candidates candidates) {
  for (Candidate& candidate : candidates) candidate = Wrapped(signature, std::move(candidate));
  return candidates;
}

}  // namespace

ListCandidates Converted(ListCandidates list) {
  return [list = std::move(list)](const StepSignature& signature) -> absl::StatusOr<Candidates> {
    if (!HasHalf(signature)) return list(signature);
    ASSIGN_OR_RETURN(Candidates candidates, list(InFp32(signature)));
    return Wrapped(signature, std::move(candidates));
  };
}

ListCandidates ConvertedAndRounded(ListCandidates list) {
  return [list = std::move(list)](const StepSignature& signature) -> absl::StatusOr<Candidates> {
    ASSIGN_OR_RETURN(Candidates candidates, list(signature));
    return HasHalf(signature) ? Wrapped(signature, std::move(candidates)) : candidates;
  };
}

ListCandidates ConvertedOrBf16(ListCandidates list) {
  return [native = list, converted = Converted(list)](
             const StepSignature& signature) -> absl::StatusOr<Candidates> {
    ASSIGN_OR_RETURN(Candidates candidates, converted(signature));
    if (!HasHalf(signature) || !IsBf16(signature) || !HasBf16()) return candidates;
    absl::StatusOr<Candidates> all = native(signature);
    if (absl::IsUnimplemented(all.status())) return candidates;
    if (!all.ok()) return all;
    for (Candidate& candidate : *all) candidate.engine.id.insert(0, "bf16:");
    for (Candidate& candidate : candidates) all->push_back(std::move(candidate));
    return all;
  };
}

}  // namespace neap::cpu
