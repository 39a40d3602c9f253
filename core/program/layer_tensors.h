// What the program's builder knows of a layer's tensors and steps. Private to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "neap/core/base/ids.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/persistent_tensors.h"
#include "neap/core/program/program.h"
#include "neap/core/step/layer.h"

namespace neap {

// Those of one output of a layer.
struct OutputTensors {
  std::optional<TensorId> value = std::nullopt;
  std::optional<TensorId> grad = std::nullopt;
  bool is_grad_shared = false;  // also another output's gradient: must not be accumulated into
  std::optional<TensorId> other_grad = std::nullopt;  // to be added to `grad` where it is read
  int readers = 0;                                    // inputs of layers that are this output
};

// The tensors of one layer and sub-batch that have been created so far.
struct LayerTensors {
  std::vector<OutputTensors> outputs = {};
  std::optional<TensorId> linear_grad = std::nullopt;
  bool needs_grad = false;
  LayerPersistent persistent = {};
  std::vector<TensorId> param_grads = {};
  std::vector<TensorId> saved = {};
  // The layers whose parameters are checked or updated after this one's backward, the last.
  std::vector<LayerId> updated_group = {};
};

// The slots that the layer's step of this phase accumulates into by itself.
std::vector<Slot> NativeSlots(const LayerSpec& spec, Phase phase);

// Whether a second tensor may become the other gradient of the output of a layer with this spec,
// because the only backward step that reads that gradient adds two tensors.
bool AddsOtherGrad(const OutputTensors& output, const LayerSpec& spec);

// INVALID_ARGUMENT if a layer reads the input of an earlier layer that passes its gradient on to it
// (LayerSpec::passes_linear_grad).
absl::Status CheckPassedGradients(const ResolvedGraph& graph);

// Whether a step reads a gradient of the layer's parameters, which must then be the layer's alone.
bool ReadsParamGrad(const LayerSpec& spec);

// The parameters of `to`, which was specified anew, that were those of `from` begin as they did
// there, and are saved so: a specification does not know what its layer shares or was fused from.
void KeepInits(const ResolvedLayer& from, ResolvedLayer& to);

// The names of parameters that several layers have.
absl::flat_hash_set<std::string> SharedParamNames(const ResolvedGraph& graph);

// INVALID_ARGUMENT for a layer that reads the gradient of a parameter that it shares.
absl::Status CheckSharedGradients(const ResolvedGraph& graph);

// INVALID_ARGUMENT if gradients are to be summed over batches, and there are several ranks, fewer
// than one batch, or a layer that reads the gradient of a parameter of its own.
absl::Status CheckAccumulation(const ResolvedGraph& graph, const ProgramOptions& options);

// The tensor that is used as this operand.
std::optional<TensorId> Find(const std::vector<Use>& uses, Operand operand);

// Adds the pair to Step::in_place if the step has both operands, and adds nothing to the result.
void AddInPlace(Operand written, Operand read, Step& step);

}  // namespace neap
