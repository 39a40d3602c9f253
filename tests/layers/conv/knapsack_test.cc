#include "neap/layers/conv/knapsack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace neap {
namespace {

// Two kernels of one class and one of another in 10 bytes, of which an unused one costs 0.1:
// {0, 0.5} + {8, 0} and {2, 0} use all bytes; the start uses none.
ChoiceProgram SmallProgram() {
  return {.classes = {{.members = 2, .items = {{0, 0.5}, {8, 0}}}, {.items = {{0, 1}, {2, 0}}}},
          .capacity_bytes = 10,
          .slack_cost = 0.1,
          .start = {{2, 0}, {1, 0}},
          .start_cost = 3};
}

TEST_CASE("the cheapest choice that fits is found and proven") {
  const ChoiceSolution solution = Solve(SmallProgram());
  CHECK(solution.counts == ChoiceCounts{{1, 1}, {0, 1}});
  CHECK(solution.cost_bound == doctest::Approx(0.5));
}

TEST_CASE("in the example of knapsack.h unused bytes have a cost too") {
  const ChoiceSolution solution = Solve({.classes = {{.members = 2, .items = {{0, 0.5}, {8, 0}}}},
                                         .capacity_bytes = 10,
                                         .slack_cost = 0.1,
                                         .start = {{2, 0}},
                                         .start_cost = 2});
  CHECK(solution.counts == ChoiceCounts{{1, 1}});
  CHECK(solution.cost_bound == doctest::Approx(0.7));
}

TEST_CASE("without a search the start is the solution, and nothing is proven") {
  ChoiceProgram program = SmallProgram();
  program.max_states = 0;
  const ChoiceSolution solution = Solve(program);
  CHECK(solution.counts == program.start);
  CHECK(solution.cost_bound == 0);
}

TEST_CASE("a start within the tolerance is not improved") {
  ChoiceProgram program = SmallProgram();
  program.start = {{1, 1}, {1, 0}};
  program.start_cost = 1.7;
  program.tolerance = 1.7;
  CHECK(Solve(program).counts == program.start);
}

TEST_CASE("a solution that exceeds a large capacity by one byte is rejected") {
  // 2 x 500,000,001 bytes are one over.
  const ChoiceProgram program = {.classes = {{.members = 2, .items = {{0, 1}, {500'000'001, 0}}}},
                                 .capacity_bytes = 1'000'000'001,
                                 .slack_cost = 1e-9,
                                 .start = {{2, 0}},
                                 .start_cost = 3};
  const ChoiceSolution solution = Solve(program);
  CHECK(solution.counts[0][1] < 2);
  CHECK(solution.cost_bound <= 1.5 + 1e-9);
}

double CostOf(const ChoiceProgram& program, const ChoiceCounts& counts) {
  int64_t unused_bytes = program.capacity_bytes;
  double cost = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    int members = 0;
    for (size_t c = 0; c < counts[k].size(); ++c) {
      members += counts[k][c];
      unused_bytes -= counts[k][c] * program.classes[k].items[c].bytes;
      cost += counts[k][c] * program.classes[k].items[c].cost;
    }
    CHECK(members == program.classes[k].members);
  }
  if (unused_bytes < 0) return std::numeric_limits<double>::infinity();
  return cost + program.slack_cost * static_cast<double>(unused_bytes);
}

// The least cost if members from `member` of class `k` on are undecided, by trying all items.
double LeastCost(const ChoiceProgram& program, size_t k, int member, int64_t bytes, double cost) {
  if (bytes < 0) return std::numeric_limits<double>::infinity();
  if (k == program.classes.size()) return cost + program.slack_cost * static_cast<double>(bytes);
  if (member == program.classes[k].members) return LeastCost(program, k + 1, 0, bytes, cost);
  double least = std::numeric_limits<double>::infinity();
  for (const ChoiceItem& item : program.classes[k].items)
    least =
        std::min(least, LeastCost(program, k, member + 1, bytes - item.bytes, cost + item.cost));
  return least;
}

ChoiceProgram RandomProgram(std::mt19937& random) {
  ChoiceProgram program = {.slack_cost = 0.01 * static_cast<double>(1 + random() % 10)};
  int64_t most_bytes = 0;
  const size_t classes = 1 + random() % 4;
  for (size_t k = 0; k < classes; ++k) {
    ChoiceClass one = {.members = 1 + static_cast<int>(random() % 3)};
    int64_t bytes = 0;
    const size_t items = 1 + random() % 4;
    for (size_t c = 0; c < items; ++c) {
      one.items.push_back({bytes, 0.01 * static_cast<double>(random() % 100)});
      bytes += static_cast<int64_t>(1 + random() % 30);
    }
    most_bytes += one.members * one.items.back().bytes;
    program.start.emplace_back(items, 0).front() = one.members;
    program.classes.push_back(one);
  }
  program.capacity_bytes = static_cast<int64_t>(random()) % (most_bytes + 1);
  program.start_cost = CostOf(program, program.start);
  return program;
}

TEST_CASE("random programs have the least cost of all choices, and few states a valid bound") {
  MESSAGE("seed 1");
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    ChoiceProgram program = RandomProgram(random);
    const double least = LeastCost(program, 0, 0, program.capacity_bytes, 0);
    const ChoiceSolution solution = Solve(program);
    CHECK(CostOf(program, solution.counts) == doctest::Approx(least).epsilon(1e-9));
    CHECK(solution.cost_bound == doctest::Approx(least).epsilon(1e-9));
    program.max_states = 1;
    const ChoiceSolution narrow = Solve(program);
    CHECK(CostOf(program, narrow.counts) >= least - 1e-9);
    CHECK(narrow.cost_bound <= least + 1e-9);
  }
}

}  // namespace
}  // namespace neap
