// How a step is run on a device: its signature, the engines that can run it, and the kernel made
// from one of them.
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
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/base/tensor.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/sgd.h"

namespace neap {

enum class Access : uint8_t { kRead, kWrite, kAccumulate };

struct OperandSpec {
  Operand operand;
  TensorSpec tensor;
  Access access = Access::kRead;
  friend bool operator==(const OperandSpec&, const OperandSpec&) = default;
};

// All that decides which kernel runs a step. Two steps with equal signatures can share a kernel.
struct StepSignature {
  Layer layer;
  Phase phase = Phase::kForward;
  Mode mode = Mode::kTraining;
  bool rerun = false;       // a recomputation: reads `rerun_reads`, leaves state alone
  uint64_t layer_seed = 0;  // distinguishes the random numbers of two equal layers; 0 without them
  Sgd sgd = {};             // phase kUpdate only
  std::vector<OperandSpec> operands;

  // Position in `operands`, where there is such an operand.
  std::optional<size_t> Find(Operand operand) const;
  bool Has(Operand operand) const { return Find(operand).has_value(); }
  // The spec of an operand that must be there.
  const TensorSpec& Spec(Operand operand) const;
  bool Accumulates(Operand operand) const;
  // Whether kernels of this step add to what the slot holds, on every backend; the others
  // overwrite it.
  bool CanAccumulate(Slot slot) const;

  friend bool operator==(const StepSignature&, const StepSignature&) = default;
  // Leaves out what seldom tells two signatures apart that have the same operands.
  template <typename H>
  friend H AbslHashValue(H h, const StepSignature& s) {
    for (const OperandSpec& o : s.operands) {
      h = H::combine(std::move(h), o.operand.slot, o.operand.index, o.access, o.tensor.shape.dims(),
                     o.tensor.dtype, o.tensor.layout);
    }
    return H::combine(std::move(h), s.layer.type(), s.phase, s.rerun, s.layer_seed);
  }
};

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
  // gradients (core/step/divisible_step.h). Same answer for equal signatures, until a backend finds
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
