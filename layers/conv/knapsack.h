// An integer program solved with GLPK: chooses one item for every member of every class such that
// the total of bytes is within a capacity and the total cost is least (the multiple-choice knapsack
// behind u-cuDNN's WD, III-C).
//
// The members of a class are identical, and the program counts them instead of distinguishing them:
// a network repeats its layers, and a search that distinguishes equal members also tries all their
// permutations.
//
//   minimise    sum_kc cost_kc x_kc + slack_cost * (capacity - sum_kc bytes_kc x_kc)
//   subject to  sum_kc bytes_kc x_kc <= capacity;  sum_c x_kc = members_k;  x_kc >= 0, integer
//
// Callers scale the costs such that those that matter are around 1, because GLPK uses absolute
// tolerances.
//
//   const std::vector<ChoiceItem> items = {{0, 0.5}, {8, 0}};
//   ASSIGN_OR_RETURN(const ChoiceSolution solution,
//                    Solve({.classes = {{.members = 2, .items = items}},
//                           .capacity_bytes = 10, .slack_cost = 0.1,
//                           .start = {{2, 0}}, .start_cost = 2}));
//   // counts {{1, 1}}: two items of 8 bytes do not fit; cost 0.5 and 2 unused bytes
//
// *Threads*: GLPK runs in its own thread, because its state is per thread: a calling program that
// also uses GLPK keeps its problems and settings. *Errors*: RESOURCE_EXHAUSTED if the system
// refuses that thread. GLPK neither prints nor aborts; if it fails or runs out of time, the best
// solution so far, initially `start`, is returned.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace neap {

struct ChoiceItem {
  int64_t bytes = 0;
  double cost = 0;
};

struct ChoiceClass {
  int members = 1;
  std::vector<ChoiceItem> items;
};

// The number of members that take each item, by class and item.
using ChoiceCounts = std::vector<std::vector<int>>;

struct ChoiceProgram {
  std::vector<ChoiceClass> classes;
  int64_t capacity_bytes = 0;
  double slack_cost = 0;  // cost of each unused byte; > 0
  ChoiceCounts start;     // a feasible solution
  double start_cost = 0;
  double tolerance = 0;  // the search stops at a solution this close to the bound
  double time_limit_seconds = 1;
};

struct ChoiceSolution {
  ChoiceCounts counts;
  double cost_bound = 0;  // lower bound on the cost of any solution; >= 0, as costs are
};

absl::StatusOr<ChoiceSolution> Solve(const ChoiceProgram& program);

}  // namespace neap
