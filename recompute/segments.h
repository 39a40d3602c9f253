// Which forward results backward may have rebuilt instead of kept, and in which pieces.
//
// SuperNeurons (3.4) keeps the outputs of CONV and FC, its checkpoints (LayerTraits::checkpoint),
// and rebuilds the cheap layers between them. On networks that fan out and join, three things need
// care:
//   * a sum (Add) is a checkpoint too: rebuilding it would need the sum before it, and so on back
//     through the whole stage;
//   * where backward never reads a checkpoint but only what the next layer makes of it (conv ->
//     relu, whose backward reads y; add -> relu), that result takes the checkpoint's place: keeping
//     it costs no more, and nothing has to be rebuilt. Paper accounting reads both and keeps the
//     first;
//   * steps that hand dropped results to each other are one segment, also across branches:
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
  std::vector<bool> checkpoints;  // by TensorId: kept, with what has taken their place; empty: even
  std::vector<bool> dropped;      // by TensorId: rebuilt when backward wants it
  std::vector<bool> in_backward;  // by TensorId: some backward step reads it
  std::vector<std::optional<size_t>> of_step;   // by StepId: its segment, if it is ever run again
  std::vector<std::vector<StepId>> steps;       // by segment, ascending
  std::vector<std::optional<StepId>> producer;  // by TensorId: the forward step that writes it
};

// Between checkpoints (SuperNeurons 3.4).
Segments CheckpointSegments(const Program& program);

// The layers cut into about sqrt(n) runs of equal length; only what crosses a cut is kept,
// convolutions are rebuilt like everything else (Chen et al., "Training Deep Nets with Sublinear
// Memory Cost", 2016, section 4).
Segments EvenSegments(const Program& program);

// By TensorId: the outputs of the layers that `wanted` is true of, or what has taken their place as
// above.
using WantedLayers = absl::FunctionRef<bool(const LayerTraits&)>;
std::vector<bool> KeptResults(const Program& program, WantedLayers wanted);

}  // namespace neap
