// Liveness: for every tensor of a program, the half-open interval of steps in which it must be in
// memory (SuperNeurons 3.2: the IN and OUT sets of all steps, as intervals).
//
//   tensor    step 0   1   2   3   4
//   input     [====================)        begins at 0: it is given
//   conv1          .[==========)            [definition, last use + 1)
//   weight    [========================)    persistent: to the end
//
// *Complexity*: O(operands).
#pragma once

#include <vector>

#include "neap/core/program.h"

namespace neap {

struct Lifetime {
  int begin = 0;  // the step that defines it; 0 for what is there before
  int end = 0;    // one past the last step that touches it
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

// By TensorId. A tensor that no step touches has begin == end (an unused input), unless it is
// persistent.
std::vector<Lifetime> Lifetimes(const Program& program);

}  // namespace neap
