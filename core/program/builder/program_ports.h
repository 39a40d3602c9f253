// The ports of a program: what the caller gives and reads. Private to the program's builder.
#pragma once

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/layer_tensors.h"
#include "neap/core/program/program.h"

namespace neap {

// The positions of a program's ports in Program::feeds, outputs and losses, by their names.
struct PortPositions {
  absl::flat_hash_map<std::string, size_t> feeds, outputs, losses;
};

// Adds the layer's output, which is known, to the ports that it belongs to: a part for each
// sub-batch. `tensors` are those of the sub-batch, by LayerId, and `known` are the program's ports.
void AddToPorts(const ResolvedGraph& graph, const ResolvedLayer& layer,
                absl::Span<const LayerTensors> tensors, PortPositions& known, Program& program);

// Completes the pause of an iteration (core/graph/caller.h): it reads all outputs of the program,
// and those whose gradients it writes have them (Port::gradient).
void HandOut(Step& pause, Program& program);

// INVALID_ARGUMENT unless `whole` has the feeds and outputs of `part`, of the same shapes.
absl::Status CheckSamePorts(const Program& part, const Program& whole);

}  // namespace neap
