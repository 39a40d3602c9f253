// The steps of one training (or inference) iteration in execution order, each with exactly the
// tensors it touches.
//
// This is where the backward pass is made. What makes it subtle is where gradients meet:
//   * a tensor read by several layers gets a gradient from each: the first writes it, the others
//     accumulate;
//   * a sum (Add) hands its gradient on unchanged, so its inputs' gradients *are* its own, no copy;
//     only when such a shared gradient must still receive another contribution does the step that
//     contributes make a new tensor ("addend": dx = f(dy) + shared), because the shared one is
//     still wanted elsewhere.
// Parameters are updated as soon as their layer's backward is done, so that their gradients die
// young.
//
// What is planned and run comes from Lower() (core/program/passes.h), which begins with
// BuildProgram().
//
//   ASSIGN_OR_RETURN(Program program, BuildProgram(graph, {.mode = Mode::kTraining}));
//   for (const Step& step : program.steps) Print(step.id, program.StepName(step), step.reads);
//
// Persistent tensors (parameters, states, optimizer) come first and are the same, with the same
// ids, for training and inference: both programs' plans put them in the same place.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/ids.h"
#include "neap/core/base/tensor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/sgd.h"

namespace neap {

struct Tensor {
  TensorId id;
  std::string name;  // "conv1", "conv1.grad", "conv1.weight", "conv1.weight.grad", "bn1.mean"
  Role role = Role::kActivation;
  TensorSpec spec;
  Init init = {};             // persistent roles
  Shape saved_shape = {};     // in files, where it differs
  bool in_checkpoint = true;  // persistent roles
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct Use {
  TensorId tensor;
  Operand operand;
  friend bool operator==(const Use&, const Use&) = default;
};

struct Step {
  StepId id;
  LayerId layer;
  Phase phase = Phase::kForward;
  std::vector<Use> reads = {};
  std::vector<Use> writes = {};
  std::vector<Use> accumulates = {};
  std::vector<Use> rerun_reads = {};  // of a recomputation, where it differs from reads
  std::vector<std::pair<TensorId, TensorId>> in_place = {};  // {written, read} that may share bytes
  std::vector<Slot> accumulates_natively = {};               // StepSpec::accumulates_natively
  double flops = 0;
  friend bool operator==(const Step&, const Step&) = default;
};

// What a run of the step reads and what it defines, without what it adds to. A rerun reads
// rerun_reads where there are any, saved tensors among them, and then does not save those again; it
// adds to nothing.
const std::vector<Use>& ReadsOf(const Step& step, bool rerun);
std::vector<Use> WritesOf(const Step& step, bool rerun);

// Whether the kernel overwrites an operand of `accumulates`: a gradient that it cannot add to. It
// writes that to scratch space, which is then added to the sum (Phase::kAddGradients).
bool KernelOverwrites(const Step& step, const Use& accumulated);

inline constexpr int64_t kScratchAlignment = 256;

struct ProgramLayer {
  std::string name;
  Layer layer;
  uint64_t seed = 0;  // of its random numbers: a hash of the name
  LayerTraits traits = {};
  friend bool operator==(const ProgramLayer&, const ProgramLayer&) = default;
};

enum class Accounting : uint8_t {
  kExact,  // the reads that kernels really need
  kPaper,  // SuperNeurons' (core/program/paper_program.h), to reproduce published figures; cannot
           // be run
};

struct ProgramOptions {
  Mode mode = Mode::kTraining;
  Sgd sgd = {};
  Accounting accounting = Accounting::kExact;
  friend bool operator==(const ProgramOptions&, const ProgramOptions&) = default;
};

struct Program {
  GraphOptions net;
  ProgramOptions options;
  std::vector<ProgramLayer> layers;
  std::vector<Tensor> tensors;
  std::vector<Step> steps;
  // Where an iteration meets the outside. Exact accounting only. `predictions` is the loss's
  // output, which is computed last in inference, so that its bytes are still there when the
  // iteration has ended.
  TensorId images, labels, iteration, metrics, predictions;

  const Tensor& tensor(TensorId id) const { return tensors[id.index()]; }
  std::string StepName(const Step& step) const;  // "conv1 backward_data"
  // Layer type, or "sgd" for updates.
  std::string_view StepType(const Step& step) const;

  // What a kernel for the step is made from. Addends are left out (whoever runs the step adds
  // them), and gradients that the kernel cannot add to appear as plain writes.
  StepSignature Signature(const Step& step, bool rerun = false) const;
  // Scratch bytes, besides the engine's own, for gradients that the kernel overwrites but the step
  // accumulates: one after another at the beginning of the step's workspace, each rounded up to
  // kScratchAlignment.
  int64_t AccumulationScratchBytes(const Step& step) const;

  friend bool operator==(const Program&, const Program&) = default;
};

// Errors: those of Resolve() and CheckSgd().
absl::StatusOr<Program> BuildProgram(const Graph& graph, const ProgramOptions& options);

// The program of a network of which `whole` is the superset, with whole's options: it has *all* of
// whole's persistent tensors, with the same ids, also those of layers that the graph leaves out. So
// plans of both put them in the same place, and an iteration of one can follow an iteration of the
// other. `whole` has exact accounting.
// Errors: as Resolve(); INVALID_ARGUMENT naming the tensor for one that `whole` does not have so,
// or for a batch that is not the whole's.
absl::StatusOr<Program> BuildPart(const Graph& graph, const Program& whole);

}  // namespace neap
