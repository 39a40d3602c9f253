// How a step is run on a device: the engines that can run its signature, and the kernel made from
// one of them.
//
// A backend is a factory: it lists the engines for a signature (while planning) and makes a kernel
// for a signature and an engine (before the first iteration). Run() then only enqueues work: it
// allocates nothing, decides nothing and waits for nothing. All memory comes from the plan,
// including the scratch space ("workspace") of an engine.
//
//   StepSignature relu = {.layer = Relu{}, .phase = Phase::kForward,
//                         .operands = {{{Slot::kInput}, spec, Access::kRead},
//                                      {{Slot::kOutput}, spec, Access::kWrite}}};
//   ASSIGN_OR_RETURN(std::vector<Engine> engines, backend.Engines(relu));
//   ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, backend.MakeKernel(relu, engines.front().id));
//   void* operands[] = {x, y};
//   RETURN_IF_ERROR(kernel->Run({.operands = operands}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/step/step_signature.h"

namespace neap {

// One way to run a step.
struct Engine {
  std::string id;  // stored in plans, so stable across runs of one library version
  int64_t workspace_bytes = 0;
  bool deterministic = true;  // the same inputs always give the same bits
  std::string notes = {};     // the library's description, informative: "tensor-core winograd"
  // Adds products of fp16 numbers in fp16 instead of fp32.
  bool accumulates_in_half = false;
  // Computes a convolution and the ReLU behind it at once. Others run the convolution, and a kernel
  // behind it.
  bool computes_relu = false;
  // Multiplies matrices by tensor cores, as far as the library says so.
  bool uses_tensor_cores = false;
  // A library has it to compare others with: it takes any operands, without workspace, and hundreds
  // of times as long.
  bool is_reference = false;
  // How many times the time that the cost model gives the step the engine takes, where that is
  // known of the engine itself, such as one that multiplies 16-bit matrices without tensor cores;
  // 0: no more is known than its place in the list.
  double slowdown = 0;
};

// The id of neap's own kernels, for a step that has no other engine.
inline constexpr std::string_view kOwnEngine = "neap";

// The alignment of workspaces, and of operands that a kernel keeps in one.
inline constexpr int64_t kWorkspaceAlignment = 256;

// Device addresses for one run. The workspace is aligned and has at least the engine's
// workspace_bytes.
struct KernelArgs {
  // Parallel to StepSignature::operands. Outputs may alias inputs as `in_place` allows.
  absl::Span<void* const> operands;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

// A kernel keeps no state between runs beyond what the signature and the engine determine, so one
// kernel can serve every step of its signature.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Enqueues the step on the compute stream. Errors: INTERNAL with the library call, its error and
  // the shapes.
  virtual absl::Status Run(const KernelArgs& args) = 0;
};

// The engines that the planner can choose from. A catalog needs no device.
//
// *Threads*: any number at a time, because a session plans on a thread of its own while it trains
// (Session::SetBudgetAsync). A backend makes kernels on one thread at a time, but lists engines on
// others meanwhile, also while its kernels run.
class EngineCatalog {
 public:
  virtual ~EngineCatalog() = default;
  // The engines for a step, the library's recommendation first. Never empty, except for a step that
  // accumulates gradients (core/step/step_signature.h). The answer is the same for equal signatures
  // until a backend finds that an engine cannot be built. Errors: UNIMPLEMENTED, naming it, for a
  // layer, dtype or layout without a kernel.
  virtual absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) = 0;
  // The libraries behind the engines: "cuDNN 9.19.0, cuBLASLt 13.1.0". Engine ids and measured
  // times hold only for these. Empty if there are no libraries.
  virtual std::string Versions() const = 0;
};

class Backend : public EngineCatalog {
 public:
  // The engine of a plan, which may come from a backend that lists more engines for the signature
  // than this one. Errors: NOT_FOUND if there is no such engine.
  virtual absl::StatusOr<Engine> Find(const StepSignature& signature, std::string_view engine);
  // Errors: those of Find(); ABORTED if the engine is one of Engines(signature), but cannot be
  // built. It is no longer listed then, so the caller should plan again.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                             std::string_view engine) = 0;
};

}  // namespace neap
