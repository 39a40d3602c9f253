// Steps that add what others have contributed to the gradient of an input (Slot::kAddend), by
// kernels that do not know it: a sum follows them, with the bits of Phase::kAddGradients.
//
//   row.list = cpu::WithAddend(row.list);  // now also for signatures with an addend
#pragma once

#include "neap/layers/cpu/converted.h"

namespace neap::cpu {

// `list` is called with a signature that has no addend.
ListCandidates WithAddend(ListCandidates list);

}  // namespace neap::cpu
