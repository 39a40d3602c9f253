// The signature of a step: all that decides which kernel runs it, and nothing else. Kernels are
// listed, made, shared, timed and cached by it.
//
// Three kinds of steps have one: those of a layer, with or without a network around it; updates of
// parameters; and the addition of a gradient to a sum. A step of a divisible layer can be run in
// parts of its mini-batch (core/step/divided_kernel.h). What the parts of backward_params compute
// adds up: the first part writes the gradients, a later one may add to them, if a library has an
// engine for that. It is the same step with its gradients accumulated.
//
//   const TensorSpec x = {{256, 64, 27, 27}};
//   const Layer conv2 = Convolution{.out_channels = 192, .kernel = 5, .padding = 2};
//   ASSIGN_OR_RETURN(StepSignature forward, SignatureOf(conv2, Phase::kForward, {x}));
//   forward.operands;  // x, weight, bias, y: a kernel takes their addresses in this order
//   StepSignature part = WithBatch(forward, 64);  // core/step/signature_text.h
//   if (SumsParts(step)) catalog.Engines(AddingSignature(part));  // UNIMPLEMENTED: none adds
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
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

// Two steps with equal signatures can share a kernel.
struct StepSignature {
  Layer layer;
  Phase phase = Phase::kForward;
  Mode mode = Mode::kTraining;
  bool rerun = false;       // a recomputation: reads `rerun_reads`, leaves state alone
  bool divisible = false;   // LayerTraits::divisible, but for an update
  uint64_t layer_seed = 0;  // distinguishes the random numbers of two equal layers; 0 without them
  Sgd sgd = {};             // phase kUpdate only
  std::vector<Slot> accumulates_natively = {};  // StepSpec::accumulates_natively
  std::vector<OperandSpec> operands;

  // Position in `operands`, where there is such an operand.
  std::optional<size_t> Find(Operand operand) const;
  bool Has(Operand operand) const { return Find(operand).has_value(); }
  // The spec of an operand that must be there.
  const TensorSpec& Spec(Operand operand) const;
  bool Accumulates(Operand operand) const;
  // Whether the kernels of this step add to what the slot holds, on every backend. The others
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

// A step of one layer by itself, in training. It is the signature that a program has for such a
// step (core/program/program.h), so times measured for the one hold for the other.
// Errors: those of Layer::Specify(); INVALID_ARGUMENT for a phase that the layer has no step for,
// updates among them.
absl::StatusOr<StepSignature> SignatureOf(const Layer& layer, Phase phase,
                                          const std::vector<TensorSpec>& inputs);

// A step of `spec`, which the layer gave for these inputs in this mode. Random numbers are those of
// layer_seed 0.
StepSignature SignatureOf(const StepSpec& step, const Layer& layer, const LayerSpec& spec,
                          const LayerContext& context);

// The addition of a gradient to a sum of the same spec, phase kAddGradients. Its operands are the
// sum, input_grad[0], which is accumulated, and addend[0].
StepSignature AdditionSignature(const TensorSpec& spec);

// Whether parts of the mini-batch can be run by themselves.
bool IsDivisible(const StepSignature& signature);

// Whether what the parts compute adds up: backward_params.
bool SumsParts(const StepSignature& signature);

// The signature of a part that adds its gradients to those that are there; what that was made from;
// and whether a signature is one.
StepSignature AddingSignature(StepSignature signature);
StepSignature WritingSignature(StepSignature signature);
bool AddsToGradients(const StepSignature& signature);

}  // namespace neap
