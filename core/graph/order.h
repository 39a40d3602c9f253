// The execution order of a network's layers: SuperNeurons' Algorithm 1.
//
// The traversal is depth first from the sources; a layer where branches meet is entered only when
// its counter says that every layer it reads has run. Depth first finishes one branch before it
// starts the next, which keeps the tensors of fewer branches alive at once than breadth first
// would:
//
//        b -> c                order:  a b c d e f
//      /        \              (not    a b d c e f)
//    a           f
//      \        /
//        d -> e
//
// It is iterative, so 10,000 layers do not overflow the stack, and deterministic: branches are
// taken in the order in which they were added. *Complexity*: O(layers + edges).
#pragma once

#include <cstddef>
#include <vector>

namespace neap {

// `inputs[i]` lists the layers that layer i reads (repeats allowed). Returns every layer that can
// run, each after all its inputs. If there are fewer than inputs.size(), the others depend on a
// cycle.
std::vector<std::size_t> ExecutionOrder(const std::vector<std::vector<std::size_t>>& inputs);

}  // namespace neap
