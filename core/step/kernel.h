// How a step is run on a device: the engines that can run its signature, and the kernel made from
// one of them.
//
// A backend is a factory: it lists engines for a signature (planning) and makes a kernel for a
// signature and an engine (before the first iteration). Run() then only enqueues work: it allocates
// nothing, decides nothing, waits for nothing. All memory comes from the plan, also the scratch
// space ("workspace") an engine asks for.
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
  std::string id;  // stable across runs of one library version: it is stored in plans
  int64_t workspace_bytes = 0;
  bool deterministic = true;  // same inputs, same bits, every time
  std::string notes = {};     // the library's, for people: "tensor-core winograd"
};

// The id of neap's own kernels, where a step has no other engine.
inline constexpr std::string_view kOwnEngine = "neap";

// Of a workspace, and of operands that a kernel keeps there.
inline constexpr int64_t kWorkspaceAlignment = 256;

// Device addresses for one run. Workspace is at least the engine's workspace_bytes, aligned.
struct KernelArgs {
  absl::Span<void* const>
      operands;  // parallel to StepSignature::operands; outputs may alias as `in_place` allows
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

// Nothing outlasts a Run() but what the signature and the engine decide: one kernel may serve every
// step of its signature.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Enqueues the step on the compute stream. Errors: INTERNAL with the library call, its error and
  // the shapes.
  virtual absl::Status Run(const KernelArgs& args) = 0;
};

// Where the planner learns what it can choose from. Needs no device.
class EngineCatalog {
 public:
  virtual ~EngineCatalog() = default;
  // Engines for a step, the library's recommendation first; never empty, but where a step adds to
  // gradients (core/step/step_signature.h). Same answer for equal signatures, until a backend finds
  // that it cannot build one of them. Errors: UNIMPLEMENTED for a layer, dtype or layout that has
  // no kernel, naming it.
  virtual absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) = 0;
  // The libraries behind the engines: "cuDNN 9.19.0, cuBLASLt 13.1.0". Engine ids and measured
  // times hold for these alone. Empty where there are none.
  virtual std::string Versions() const = 0;
};

class Backend : public EngineCatalog {
 public:
  // Errors: NOT_FOUND when `engine` is not one of Engines(signature); ABORTED when it is, but turns
  // out not to build: it is listed no more, so plan again.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                             std::string_view engine) = 0;
};

}  // namespace neap
