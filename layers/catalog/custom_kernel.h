// Kernels for custom layers: a program that defines a layer (core/step/layer.h) registers the
// kernels of its steps when it opens a device, on the CPU and on a GPU alike. docs/own-layers.md
// shows a complete layer.
//
// The difficulty lies outside the kernel: neap moves, drops and recomputes the tensors that the
// layer declares. A kernel that touches other memory, or whose results differ between runs, breaks
// training without any error. The kernel's obligations are listed at CustomKernel.
//
//   absl::Status QuickGeluForward(const CustomRun& step) {
//     const float* const x = step.Get<float>(operands::X());
//     float* const y = step.Get<float>(operands::Y());
//     for (int64_t i = 0; i < step.Elements(operands::Y()); ++i) y[i] = QuickGelu(x[i]);
//     return absl::OkStatus();
//   }
//
// The program registers it when it opens the device:
//
//   ASSIGN_OR_RETURN(
//       auto device,
//       CpuDevice::Open({.kernels = {{.layer_type = "quick_gelu", .run = QuickGeluForward},
//                                    {.layer_type = "quick_gelu",
//                                     .phase = Phase::kBackwardData,
//                                     .run = QuickGeluBackward}}}));
//
// On a GPU (CudaDevice::Open) `run` enqueues its work on step.stream and returns without waiting.
// Iterations are recorded and replayed there (TrainingOptions::records_iterations), so `run` is not
// called for each of them: what changes between iterations must come from device memory.
// DescribedCatalog() takes the same kernels to plan for a device that is not present.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/base/float16.h"  // for kernels that take 16 bits
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/step_run.h"

namespace neap {

// One run of a custom kernel. The operands are addresses in the device's memory.
struct CustomRun : StepRun {
  void* stream = nullptr;  // the cudaStream_t of the compute stream; null on the CPU
};
using CustomFunction = std::function<absl::Status(const CustomRun& step)>;

// The kernel that runs one step of every layer of one type. Updates need no kernel.
//
// A kernel must meet these conditions:
// * It reads the operands that the signature reads, overwrites those that it writes
//   (Access::kWrite), adds to those that it accumulates (Access::kAccumulate), uses its workspace,
//   and accesses no other memory. It is asked to accumulate only into slots that the step's
//   accumulates_natively has.
// * A result may share memory with the operand that the layer's `in_place` pairs it with.
// * Equal operands always give equal bits, because plans that recompute run the kernel again.
// * Such a rerun (signature.rerun) reads `rerun_reads`, if the layer has them, writes all results
//   that are not among them, saved tensors too, and does not change the layer's states.
//
// *Threads*: kernels run one after another, on the thread that calls the session;
// `workspace_bytes` may be called on another thread meanwhile (Session::SetBudgetAsync). On a GPU,
// the device is current during the call, and kernels must not allocate or wait.
// *Errors*: the session's calls return the errors of `make`, `run` and `workspace_bytes`, with the
// step's name; what they throw is INTERNAL, or RESOURCE_EXHAUSTED for std::bad_alloc.
struct CustomKernel {
  std::string layer_type;  // the layer's kType
  Phase phase = Phase::kForward;
  CustomFunction run = nullptr;
  // An alternative to `run`, for a kernel that needs preparation: makes the function once for every
  // distinct step of a plan, before the plan's first iteration.
  std::function<absl::StatusOr<CustomFunction>(const StepSignature& signature)> make = nullptr;
  // Scratch memory that a run of the step needs, aligned to kWorkspaceAlignment. Null means none.
  // Called while planning, also without a device.
  std::function<absl::StatusOr<int64_t>(const StepSignature& signature)> workspace_bytes = nullptr;
  // The engine's id in plans and in the profile database. Change it whenever the kernel changes;
  // otherwise times measured with the old kernel are used for the new one.
  std::string engine = "custom";
  // Whether the kernel takes operands of 16 bits (Fp16 and Bf16 of core/base/float16.h, which this
  // header includes), with the types that the signature says. Networks of these types refuse a
  // kernel that does not.
  bool takes_16_bits = false;
  // Whether the kernel adds addend[i], if the signature has it, to the gradient input_grad[i], as
  // those of a LayerNorm and of a depthwise Convolution do (Slot::kAddend in
  // StepSpec::accumulates_natively). Steps with one refuse a kernel that does not.
  bool takes_addends = false;
};

// The engine of a step that `kernel` runs. Errors: UNIMPLEMENTED for a step that accumulates an
// operand whose slot the layer's accumulates_natively lacks, or that has an addend or an operand of
// 16 bits which the kernel does not take; those of workspace_bytes; INVALID_ARGUMENT if that is
// negative or more than kMaxTensorBytes.
absl::StatusOr<Engine> EngineOf(const CustomKernel& kernel, const StepSignature& signature);

// The kernel for a step; null if none is registered.
const CustomKernel* FindKernel(absl::Span<const CustomKernel> kernels,
                               const StepSignature& signature);

// Errors: INVALID_ARGUMENT, with the layer's type and the phase, for two kernels of one step, both
// `run` and `make`, no layer type, no engine id, or a phase that layers do not have (an update).
absl::Status CheckCustomKernels(absl::Span<const CustomKernel> kernels);

}  // namespace neap
