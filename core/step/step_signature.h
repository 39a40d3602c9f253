// The signature of a step: everything that determines which kernel runs it, and nothing else. It is
// the key by which kernels are listed, made, shared, timed and cached.
//
// Three kinds of steps have a signature: those of a layer, in a network or by itself; those of the
// optimizer; and the addition of a gradient to a sum. A step of a divisible layer can be run in
// parts of its mini-batch (core/step/divided_kernel.h), unless it is backward_activation. The
// results of the parts of backward_params are summed: the first part writes the gradients, and a
// later one may accumulate into them if a library has an engine for that. Its signature is the same
// but for the access to the gradients.
//
//   const TensorSpec x = {{256, 64, 27, 27}};
//   const Layer conv2 = Convolution{.out_channels = 192, .kernel = 5, .padding = 2};
//   ASSIGN_OR_RETURN(StepSignature forward, SignatureOf(conv2, Phase::kForward, {x}));
//   forward.operands;  // x, weight, bias, y: a kernel takes their addresses in this order
//   ASSIGN_OR_RETURN(StepSignature step, SignatureOf(conv2, Phase::kBackwardParams, {x}));
//   StepSignature part = WithBatch(step, 64);           // core/step/signature_text.h
//   if (SumsParts(step)) part = AddingSignature(part);  // a part after the first
//   ASSIGN_OR_RETURN(std::vector<Engine> engines, catalog.Engines(part));  // may be UNIMPLEMENTED
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/tensor.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/optimizer.h"

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
  bool rerun = false;       // a recomputation: reads `rerun_reads`, does not change state
  bool divisible = false;   // MayDivide() of the layer's traits; false for a step of the optimizer
  bool multiplies = false;  // LayerTraits::multiplies, of a step of a layer
  uint64_t layer_seed =
      0;  // distinguishes the random numbers of two equal layers; 0 if it has none
  Optimizer optimizer = {};  // of updates
  // The images that the operands hold: the whole batch unless StepSpec::depends_on_part.
  BatchPart part = {};
  std::vector<Slot> accumulates_natively = {};  // StepSpec::accumulates_natively
  std::vector<OperandSpec> operands;

  // The position in `operands`; nullopt if there is no such operand.
  std::optional<size_t> Find(Operand operand) const;
  bool Has(Operand operand) const { return Find(operand).has_value(); }
  // The spec of an operand, which must exist.
  const TensorSpec& Spec(Operand operand) const;
  bool Accumulates(Operand operand) const;
  // Whether the kernels of this step, on every backend, can accumulate into the slot. Otherwise
  // they overwrite it.
  bool CanAccumulate(Slot slot) const;

  friend bool operator==(const StepSignature&, const StepSignature&) = default;
  // Omits fields that seldom differ between signatures with the same operands.
  template <typename H>
  friend H AbslHashValue(H h, const StepSignature& s) {
    for (const OperandSpec& o : s.operands) {
      h = H::combine(std::move(h), o.operand.slot, o.operand.index, o.access, o.tensor.shape.dims(),
                     o.tensor.dtype, o.tensor.layout);
    }
    return H::combine(std::move(h), s.layer.type(), s.phase, s.rerun, s.layer_seed, s.part.first);
  }
};

// The signature of a step of one layer by itself, in training. A program has the same signature for
// such a step (core/program/program.h), so times measured for one hold for the other.
// Errors: those of Layer::Specify(); INVALID_ARGUMENT for a phase for which the layer has no step,
// such as kUpdate.
absl::StatusOr<StepSignature> SignatureOf(const Layer& layer, Phase phase,
                                          const std::vector<TensorSpec>& inputs);

// The signature of a step of `spec`, the result of layer.Specify(context). layer_seed is 0.
StepSignature SignatureOf(const StepSpec& step, const Layer& layer, const LayerSpec& spec,
                          const LayerContext& context);

// The signature of adding a gradient to a sum of the same spec, phase kAddGradients. Its operands
// are the sum input_grad[0], which is accumulated, and addend[0].
StepSignature AdditionSignature(const TensorSpec& spec);

// The type of what a step of this phase runs: the layer's type; "sgd" or "adamw" for an update,
// "gradient_norm" for a check of gradients that are clipped, "loss_scale" for other steps of the
// optimizer; "add" for the addition of a gradient.
std::string_view TypeOf(const Layer& layer, Phase phase, const Optimizer& optimizer = {});

// Whether parts of the mini-batch can be run separately.
bool IsDivisible(const StepSignature& signature);

// Whether the results of the parts are summed: backward_params.
bool SumsParts(const StepSignature& signature);

// The signature of a part that accumulates its gradients; its inverse, the signature of a part that
// writes them; and whether a signature accumulates its gradients.
StepSignature AddingSignature(StepSignature signature);
StepSignature WritingSignature(StepSignature signature);
bool AddsToGradients(const StepSignature& signature);

}  // namespace neap
