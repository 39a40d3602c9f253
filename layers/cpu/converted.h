// 16-bit tensors on the CPU: kernels compute on fp32 arrays, so operands of 16 bits are converted
// before and after them. Only oneDNN has kernels for bf16, for CPUs that have instructions for it.
//
// The fp32 copies lie in the workspace, behind that of the kernel:
//
//   workspace  [workspace of the kernel)[x in fp32)[y in fp32) ...
//
// A result is rounded once, when it is stored. Where one kernel does the work of several layers,
// the results between them are rounded to the type of the tensors that they replace, so its bits
// are those of the layers (RoundAs). For the same reason, what a kernel adds to the gradient of an
// input is computed apart and rounded before it is added: fusion may leave the same gradient a
// tensor of its own (StepSpec::sums_output_grads).
//
//   KernelRow row = {kLayer<Relu>, std::nullopt, cpu::ActivationSteps};
//   row.list = cpu::Converted(row.list);  // now also for fp16 and bf16
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "neap/core/base/float16.h"
#include "neap/core/base/tensor.h"
#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {

using ListCandidates = std::function<absl::StatusOr<Candidates>(const StepSignature& signature)>;

// `list` is called with a signature whose operands are fp32.
ListCandidates Converted(ListCandidates list);
// `list` is called with the 16-bit signature, so that its kernels can round what they do not store.
ListCandidates ConvertedAndRounded(ListCandidates list);

// The same for oneDNN's kernels, which are listed for fp32 operands, and before that as they are
// for bf16 ones if the CPU multiplies these: with "bf16:" before their names.
ListCandidates ConvertedOrBf16(ListCandidates list);

// Calls `use(round)` with a function that rounds a float to the type and back.
template <typename Use>
auto RoundAs(DType dtype, const Use& use) {
  if (dtype == DType::kFp16)
    return use([](float value) { return static_cast<float>(Fp16(value)); });
  if (dtype == DType::kBf16)
    return use([](float value) { return static_cast<float>(Bf16(value)); });
  return use([](float value) { return value; });
}

}  // namespace neap::cpu
