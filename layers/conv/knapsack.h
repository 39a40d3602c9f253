// An exact branch and bound that chooses one item for every member of every class such that the
// total of bytes is within a capacity and the total cost is least (the multiple-choice knapsack
// behind u-cuDNN's WD, III-C).
//
//   minimise    sum_kc cost_kc x_kc + slack_cost * (capacity - sum_kc bytes_kc x_kc)
//   subject to  sum_kc bytes_kc x_kc <= capacity;  sum_c x_kc = members_k;  x_kc >= 0, integer
//
// The search decides one member after another. Of all partial choices it keeps those that no other
// one dominates (fewer bytes and less cost), and whose cost with the linear relaxation of what is
// undecided is below the best solution's. At most `max_states` are kept for each member, those with
// the least bounds: the work is bounded, and the bounds of what was left out are part of the
// result's bound. If nothing had to be left out, the solution is optimal.
//
//   const std::vector<ChoiceItem> items = {{0, 0.5}, {8, 0}};
//   const ChoiceSolution solution = Solve({.classes = {{.members = 2, .items = items}},
//                                          .capacity_bytes = 10, .slack_cost = 0.1,
//                                          .start = {{2, 0}}, .start_cost = 2});
//   // counts {{1, 1}}: two items of 8 bytes do not fit; cost 0.5 and 2 unused bytes
//
// The result is deterministic.
#pragma once

#include <cstdint>
#include <vector>

namespace neap {

struct ChoiceItem {
  int64_t bytes = 0;
  double cost = 0;
};

struct ChoiceClass {
  int members = 1;
  std::vector<ChoiceItem> items;  // at least one; bytes rise from each to the next
};

// The number of members that take each item, by class and item.
using ChoiceCounts = std::vector<std::vector<int>>;

struct ChoiceProgram {
  std::vector<ChoiceClass> classes;
  int64_t capacity_bytes = 0;
  double slack_cost = 0;  // cost of each unused byte; > 0
  ChoiceCounts start;     // a feasible solution
  double start_cost = 0;
  double tolerance = 0;       // the search stops at a solution this close to the bound
  int64_t max_states = 4096;  // 0: the start is the solution
};

struct ChoiceSolution {
  ChoiceCounts counts;
  double cost_bound = 0;  // lower bound on the cost of any solution; >= 0, as costs are
};

ChoiceSolution Solve(const ChoiceProgram& program);

}  // namespace neap
