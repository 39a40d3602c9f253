// The execution order of a network's layers: SuperNeurons' Algorithm 1.
//
// Depth first from the sources; a layer where branches meet is entered only when its counter says
// that every layer it reads has run. Going deep before going wide finishes one branch before it
// starts the next, which keeps fewer branches' tensors alive at once than breadth first would:
//
//        b -> c                order:  a b c d e f
//      /        \              (not    a b d c e f)
//    a           f
//      \        /
//        d -> e
//
// Iterative, so that 10,000 layers do not overflow the stack. Deterministic: branches in the order
// they were added. *Complexity*: O(layers + edges).
#pragma once

#include <cstddef>
#include <vector>

namespace neap {

// `inputs[i]`: the layers that layer i reads (repeats allowed). Returns every layer that can run,
// each after all its inputs. Fewer than inputs.size() means that the others wait on a cycle.
std::vector<std::size_t> ExecutionOrder(const std::vector<std::vector<std::size_t>>& inputs);

}  // namespace neap
