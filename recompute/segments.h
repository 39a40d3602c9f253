// Segments: which forward results are dropped and rebuilt for backward, and which of them are
// rebuilt together.
//
// SuperNeurons (3.4) keeps the outputs of CONV and FC layers, its checkpoints
// (LayerTraits::checkpoint), and rebuilds the cheap layers between them. On networks that fan out
// and join, three things need care:
//   * A sum (Add) is a checkpoint too. To rebuild it would take the sum before it, and so on back
//     through the whole stage.
//   * Backward may read only the next layer's result and never the checkpoint itself (conv -> relu,
//     whose backward reads y; add -> relu). Then that result is kept in its place: it takes no more
//     bytes, and nothing has to be rebuilt. In paper accounting backward reads both, and the first
//     is kept.
//   * Steps of which one reads a dropped result of the other are in one segment, also across
//     branches:
//
//       conv1* -- bn1 -- relu1 --+
//                                concat -- pool       one segment: bn1 relu1 bn2 relu2 concat pool
//       conv2* -- bn2 -- relu2 --+                    (* checkpoint)
#pragma once

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "neap/core/program/program.h"

namespace neap {

struct Segments {
  // By TensorId: kept results of CONV, FC and Add layers, or those kept in their place. Even
  // segments have none (empty).
  std::vector<bool> checkpoints;
  std::vector<bool> dropped;  // by TensorId: freed after forward, rebuilt when backward reads it
  std::vector<bool> in_backward;                // by TensorId: some backward step reads it
  std::vector<std::optional<size_t>> of_step;   // by StepId: its segment, if it can be rerun
  std::vector<std::vector<StepId>> steps;       // by segment, ascending
  std::vector<std::optional<StepId>> producer;  // by TensorId: the forward step that writes it
};

// The segments between checkpoints (SuperNeurons 3.4).
Segments CheckpointSegments(const Program& program);

// About sqrt(n) segments of equal length. Only tensors that cross from one segment to another are
// kept; convolutions are rebuilt like all other layers (Chen et al., "Training Deep Nets with
// Sublinear Memory Cost", 2016, section 4).
Segments EvenSegments(const Program& program);

// Every forward step that can be rerun is a segment of its own. Nothing is dropped yet.
Segments NothingDropped(const Program& program);
// Drops what a rerun of the step writes, or keeps it.
void SetDropped(const Step& step, bool dropped, Segments& segments);

// By TensorId: the outputs of the layers for which `wanted` is true, or those kept in their place.
using WantedLayers = absl::FunctionRef<bool(const LayerTraits&)>;
std::vector<bool> KeptResults(const Program& program, WantedLayers wanted);

}  // namespace neap
