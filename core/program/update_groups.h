// Which layers' parameters are updated by one step. Private to the program's builder.
//
// A launch takes some microseconds however little it does, and most layers of a deep network have
// few parameters. Where launches count, one step therefore updates the parameters of layers that
// follow each other in backward. Their gradients wait for the last one's:
//
//   backward      fc  bn3  conv3  bn2  conv2  bn1  conv1      until there are 8 bytes
//   gradients      8    1      4    1      9    1      4
//   groups      [fc] [bn3  conv3  bn2  conv2] [bn1 conv1]
//
// Less than the group's bytes wait, and only where memory is not short: not for a layer whose
// output is large. Backward of such a layer takes so long that launches do not count either.
//
//   for (const std::vector<LayerId>& group : UpdateGroups(graph, learning, {.bytes = 8 * kMiB})) {
//     const LayerId last = group.back();  // after whose backward the step runs
//   }
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/base/ids.h"
#include "neap/core/base/units.h"
#include "neap/core/graph/graph.h"

namespace neap {

struct UpdateGroupRules {
  // A group is complete when its gradients have as many. 0: every layer is a group.
  int64_t bytes = 0;
  // A layer with a larger output begins a group.
  int64_t largest_output_bytes = kUnlimited;
};

// A group of several layers has at most so many parameters, or states if a layer has more of
// these, as a kernel's launch takes.
inline constexpr size_t kMaxTensorsOfGroup = 64;

// The layers whose parameters have gradients, in the order of backward.
std::vector<LayerId> LearningLayers(const ResolvedGraph& graph);

// Divides `layers` into groups without changing their order. *Complexity*: linear.
std::vector<std::vector<LayerId>> UpdateGroups(const ResolvedGraph& graph,
                                               const std::vector<LayerId>& layers,
                                               const UpdateGroupRules& rules);

}  // namespace neap
