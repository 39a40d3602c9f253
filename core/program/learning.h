// Which layers learn. Private to the program's builder.
#pragma once

#include "absl/types/span.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/layer_tensors.h"

namespace neap {

// Sets LayerTensors::needs_grad of the layers between parameters and losses, and
// PersistentParam::is_borrowed: a parameter that layers share is updated with the first of them
// that learns, because backward of that one comes last. `tensors` is by LayerId.
void MarkLearning(const ResolvedGraph& graph, absl::Span<LayerTensors> tensors);

}  // namespace neap
