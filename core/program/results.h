// The tensors that are read when an iteration has ended, so a plan keeps them until then.
//
//   for (TensorId tensor : KeptResults(program)) Keep(tensor);
//
// No step writes over them. The metrics of losses, which outlive the iteration, are not among them.
#pragma once

#include <vector>

#include "neap/core/base/ids.h"
#include "neap/core/program/program.h"

namespace neap {

// Program::outputs, unless the iteration has handed them out at a pause, and in inference what the
// losses read and make of it; none in the paper's accounting.
std::vector<TensorId> KeptResults(const Program& program);

}  // namespace neap
