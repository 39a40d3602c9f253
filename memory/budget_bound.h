// The bytes that a program needs, without its engines: a lower bound on its smallest feasible
// budget, and the bytes with which nothing has to move. Both take a few microseconds for each step.
//
// To find the smallest budget exactly, engines are listed and tensors are placed, which takes a
// hundred times as long. Where the smallest of many programs is sought, the bound shows that most
// of them need not be looked at (memory/smallest_program.h).
//
//   arena  | persistent | gradients of parameters, labels: while needed | operands of a step |
//
//   BudgetBound(program, options) <= *MinimumBudget(program, options, device, catalog);
#pragma once

#include <cstdint>

#include "neap/core/program/program.h"
#include "neap/memory/planner_options.h"

namespace neap {

// Bytes. It counts the tensors that no policy moves or drops while they are needed, the images at
// the beginning, and the operands of each step; workspaces, gaps, and what cannot be moved because
// there is no room for it outside the arena come on top. 0 in the paper's accounting.
int64_t BudgetBound(const Program& program, const PlannerOptions& options);

// The bytes of a plan that moves and rebuilds nothing, without workspaces and gaps.
int64_t UnmovedBytes(const Program& program, const PlannerOptions& options);

}  // namespace neap
