// Lowers a resolved graph to steps with exact accounting. Private to BuildProgram() and BuildPart()
// (core/program/program.h), whose comments say what is difficult.
//
//   ProgramBuilder builder(std::move(parts), options);
//   builder.Adopt(whole);  // for a part of its network
//   Program part = builder.Build();
//   builder.unknown_tensor();  // what `whole` lacks, if anything
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "neap/core/base/ids.h"
#include "neap/core/base/tensor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/builder/program_ports.h"
#include "neap/core/program/builder/update_writer.h"
#include "neap/core/program/layer_tensors.h"
#include "neap/core/program/persistent_tensors.h"
#include "neap/core/program/program.h"
#include "neap/core/program/sub_batches.h"
#include "neap/core/step/layer_spec.h"

namespace neap {

class ProgramBuilder {
 public:
  ProgramBuilder(PartGraphs parts, const ProgramOptions& options);

  // For a program with the persistent tensors of `whole`.
  void Adopt(const Program& whole) { persistent_.Adopt(whole); }
  const std::optional<std::string>& unknown_tensor() const { return persistent_.unknown(); }

  Program Build();

 private:
  // The layers as each sub-batch goes through them. If there are several, steps of the optimizer
  // belong to further layers behind them, which count the images of the first.
  void AddLayers();
  void MakePersistent();
  size_t FirstLayer() const { return static_cast<size_t>(sub_batch_.index) * graph_.layers.size(); }
  bool IsLastSubBatch() const { return sub_batch_.index + 1 == sub_batch_.count; }
  LayerTensors& Tensors(LayerId layer) { return tensors_[FirstLayer() + layer.index()]; }
  const LayerTensors& Tensors(LayerId layer) const {
    return tensors_[FirstLayer() + layer.index()];
  }

  OutputTensors& Tensors(LayerOutput output) {
    return Tensors(output.layer).outputs[static_cast<size_t>(output.index)];
  }
  const OutputTensors& Tensors(LayerOutput output) const {
    return Tensors(output.layer).outputs[static_cast<size_t>(output.index)];
  }

  // Of the sub-batch that is being added, by LayerId.
  absl::Span<LayerTensors> Current();

  // Keeps what the sub-batches have in common.
  void BeginSubBatch(int64_t index);

  void RunSubBatch();
  UpdateWriter Updates();

  // The iteration without a batch: all gradients are those of the iterations before.
  void UpdateAccumulated();

  TensorId NewOfSubBatch(std::string_view name, Role role, TensorSpec spec);
  TensorId NewTensor(std::string name, Role role, TensorSpec spec);
  void Forward(const ResolvedLayer& layer);

  void Backward(const ResolvedLayer& layer);

  void MakeParamGrads(const ResolvedLayer& layer);

  // All layers that share a parameter contribute to one gradient.
  TensorId ParamGradOf(const ResolvedLayer& layer, size_t i);

  // A sum's gradient passes to its inputs unchanged.
  void PassGradient(const ResolvedLayer& layer);

  // The gradient before the activation may be that of an input, too, the first that is known of it
  // (CheckPassedGradients).
  void PassLinearGradient(const ResolvedLayer& layer);

  void AddStep(const ResolvedLayer& layer, const StepSpec& spec);

  // The layer's ports are added: those of KeptResults() among them (core/program/results.h) are
  // kept, so nothing is written over them.
  void AddKept(const ResolvedLayer& layer);
  void RemoveKept(Step& step) const;

  // Whether the step adds to an operand that it writes, or accumulates into: batches or sub-batches
  // before this one have written it, or layers that share the parameter.
  bool AddsTo(const ResolvedLayer& layer, Operand operand, bool accumulates);

  bool WantsAnyWrite(const ResolvedLayer& layer, const StepSpec& spec) const;

  // The step contributes to the gradient of input `index`: as its first writer, by adding a shared
  // gradient, as the second of two tensors that the producer's backward adds, or by accumulating
  // into a sum.
  void AddGradient(const ResolvedLayer& layer, int index, const StepSpec& spec, Step& step);

  // Whether there is such a tensor: no loss depends on some outputs of a layer with several.
  bool IsKnown(const ResolvedLayer& layer, Operand operand) const;

  TensorId TensorOf(const ResolvedLayer& layer, Operand operand) const;

  ResolvedGraph graph_;                // of the sub-batch that is being added
  std::optional<ResolvedGraph> last_;  // of the last one, if it is shorter
  const PartSizes sizes_;
  SubBatch sub_batch_;  // that is being added
  Program program_;
  std::vector<LayerTensors> tensors_;                    // by LayerId of a step
  absl::flat_hash_map<TensorId, TensorId> param_grads_;  // by parameter
  absl::flat_hash_set<TensorId> written_;                // gradients of parameters
  PortPositions ports_;
  absl::flat_hash_set<TensorId> kept_;  // KeptResults() of the program so far
  TensorId iteration_;
  std::optional<TensorId> gradient_norm_;  // if gradients are clipped
  PersistentTensors persistent_;
};

}  // namespace neap
