// Kernels for layers of one's own: a program that defines a layer (core/step/layer.h) says what
// runs its steps when it opens a device, on the CPU and on a GPU alike. docs/own-layers.md shows a
// whole one.
//
// The difficulty is what happens around the kernel: neap moves, drops and recomputes the tensors
// that the layer declares, so a kernel that touches more than that, or repeats other bits, breaks a
// training run in a way that no error tells. What a kernel promises stands at CustomKernel.
//
//   absl::Status GeluForward(const CustomRun& step) {
//     const float* const x = step.Get<float>(operands::X());
//     float* const y = step.Get<float>(operands::Y());
//     for (int64_t i = 0; i < step.Elements(operands::Y()); ++i) y[i] = Gelu(x[i]);
//     return absl::OkStatus();
//   }
//   ASSIGN_OR_RETURN(
//       auto device,
//       CpuDevice::Open({.kernels = {{.layer_type = "gelu", .run = GeluForward},
//                                    {.layer_type = "gelu",
//                                     .phase = Phase::kBackwardData,
//                                     .run = GeluBackward}}}));
//
// On a GPU (CudaDevice::Open) `run` enqueues its work on step.stream and returns without waiting.
// To plan for a device that is not here, DescribedCatalog() takes the same kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/step_run.h"

namespace neap {

// One run of such a kernel. Its operands are addresses of the device's memory.
struct CustomRun : StepRun {
  void* stream = nullptr;  // the cudaStream_t of the compute stream; null on the CPU
};
using CustomFunction = std::function<absl::Status(const CustomRun& step)>;

// What runs one step of every layer of one type. Sgd updates need no kernel.
//
// A kernel promises that
//   * it reads what the signature reads, overwrites what it writes (Access::kWrite), adds to what
//     it accumulates (Access::kAccumulate), uses its workspace, and touches nothing else;
//   * a result may lie over the operand that the layer's `in_place` names with it;
//   * equal operands give equal bits, every time: plans run it again where they recompute;
//   * such a rerun (signature.rerun) reads `rerun_reads`, if the layer has them, and leaves its
//     states alone.
//
// *Threads*: kernels run one after another, each on the thread that the session is called on. On a
// GPU, whose device is then current, they allocate nothing and wait for nothing.
// *Errors*: those of `make`, `run` and `workspace_bytes` come back from the session's calls, with
// the step's name.
struct CustomKernel {
  std::string layer_type;  // the layer's kType
  Phase phase = Phase::kForward;
  CustomFunction run = nullptr;
  // In place of `run`, for a kernel that prepares something: makes the function, once for every
  // distinct step of a plan, before the plan's first iteration.
  std::function<absl::StatusOr<CustomFunction>(const StepSignature& signature)> make = nullptr;
  // Scratch memory that a run of the step wants, aligned to kWorkspaceAlignment. Null: it wants
  // none. Asked while planning, also without a device.
  std::function<absl::StatusOr<int64_t>(const StepSignature& signature)> workspace_bytes = nullptr;
  // The engine's id in plans and in the profile database: give the kernel another one when it
  // changes, or times that were measured of the old one are taken for its own.
  std::string engine = "custom";
};

// The engine of a step that `kernel` runs. Errors: those of workspace_bytes; INTERNAL where that is
// negative.
absl::StatusOr<Engine> EngineOf(const CustomKernel& kernel, const StepSignature& signature);

// The kernel for a step; null where there is none.
const CustomKernel* FindKernel(absl::Span<const CustomKernel> kernels,
                               const StepSignature& signature);

// Errors: INVALID_ARGUMENT naming the layer's type and the phase: two kernels of one step, `run`
// and `make` at once, no layer type, no engine id, or a phase that is no layer's (an update).
absl::Status CheckCustomKernels(absl::Span<const CustomKernel> kernels);

}  // namespace neap
