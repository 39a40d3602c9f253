// An integer program solved with GLPK: one item for every member of every class, so that the total
// of bytes is within a capacity and the total cost least (the multiple-choice knapsack behind
// u-cuDNN's WD, III-C).
//
// Members of a class are alike, and are counted rather than told apart: a network repeats its
// layers, and a search that tells equal ones apart goes through every way to swap them.
//
//   minimise    sum_kc cost_kc x_kc + slack_cost * (capacity - sum_kc bytes_kc x_kc)
//   subject to  sum_kc bytes_kc x_kc <= capacity;  sum_c x_kc = members_k;  x_kc >= 0, integer
//
// Callers scale costs so that those that matter are around 1: GLPK works with absolute tolerances.
//
//   const std::vector<ChoiceItem> items = {{0, 0.5}, {8, 0}};
//   const ChoiceSolution solution = Solve({.classes = {{.members = 2, .items = items}},
//                                          .capacity_bytes = 10, .slack_cost = 0.1,
//                                          .start = {{2, 0}}, .start_cost = 2});
//   // counts {{1, 1}}: both in 8 bytes do not fit; cost 0.5 and 2 unused bytes
//
// *Threads*: GLPK runs in a thread of its own, where its state is nobody else's: a program that
// uses GLPK too keeps its problems and settings. *Errors*: none. GLPK neither prints nor aborts;
// where it fails, or time is short, the start is the solution.
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
  std::vector<ChoiceItem> items;
};

// How many members take which item, by class and item.
using ChoiceCounts = std::vector<std::vector<int>>;

struct ChoiceProgram {
  std::vector<ChoiceClass> classes;
  int64_t capacity_bytes = 0;
  double slack_cost = 0;  // of a byte not used; > 0
  ChoiceCounts start;     // a solution that fits
  double start_cost = 0;
  double tolerance = 0;  // a solution this close to the bound is good enough
  double time_limit_seconds = 1;
};

struct ChoiceSolution {
  ChoiceCounts counts;
  double cost_bound = 0;  // no solution costs less (>= 0: the program's costs are not negative)
};

ChoiceSolution Solve(const ChoiceProgram& program);

}  // namespace neap
