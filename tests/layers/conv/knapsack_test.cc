#include "neap/layers/conv/knapsack.h"

#include <doctest/doctest.h>
#include <glpk.h>

#include <limits>
#include <string>
#include <vector>

#include "neap/layers/conv/workspace_division.h"
#include "tests/no_threads.h"

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
  const ChoiceSolution solution = Solve(SmallProgram()).value();
  CHECK(solution.counts == ChoiceCounts{{1, 1}, {0, 1}});
  CHECK(solution.cost_bound == doctest::Approx(0.5));
}

TEST_CASE("in the example of knapsack.h unused bytes have a cost too") {
  const ChoiceSolution solution = Solve({.classes = {{.members = 2, .items = {{0, 0.5}, {8, 0}}}},
                                         .capacity_bytes = 10,
                                         .slack_cost = 0.1,
                                         .start = {{2, 0}},
                                         .start_cost = 2})
                                      .value();
  CHECK(solution.counts == ChoiceCounts{{1, 1}});
  CHECK(solution.cost_bound == doctest::Approx(0.7));
}

TEST_CASE("without time, or if GLPK fails, the start is the solution, and nothing is proven") {
  std::vector<ChoiceProgram> programs(3, SmallProgram());
  programs[0].time_limit_seconds = 0;
  programs[1].time_limit_seconds = -1;
  programs[2].slack_cost = std::numeric_limits<double>::infinity();  // GLPK calls abort()
  for (const ChoiceProgram& program : programs) {
    CAPTURE(program.time_limit_seconds);
    const ChoiceSolution solution = Solve(program).value();
    CHECK(solution.counts == program.start);
    CHECK(solution.cost_bound == 0);
  }
}

TEST_CASE("a refused thread is an error status, also of a division of workspace") {
  // The relaxation takes {10, 1} of one of them, which leaves 8 bytes and a gap.
  const std::vector<Configuration> front = {
      {.seconds = 10}, {.workspace_bytes = 6, .seconds = 5}, {.workspace_bytes = 10, .seconds = 1}};
  CHECK(DivideWorkspace({front, front}, 18).ok());
  const testing::NoThreads none;
  const absl::Status status = Solve(SmallProgram()).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK(status.message().find("cannot start a thread") != absl::string_view::npos);
  CHECK(DivideWorkspace({front, front}, 18).status() == status);
}

TEST_CASE("a start within the tolerance is not improved") {
  ChoiceProgram program = SmallProgram();
  program.start = {{1, 1}, {1, 0}};
  program.start_cost = 1.7;
  program.tolerance = 1.7;
  CHECK(Solve(program).value().counts == program.start);
}

TEST_CASE("a solution that exceeds a large capacity by one byte is rejected") {
  // 2 x 500,000,001 bytes are one over; GLPK's own tolerance would let them pass.
  const ChoiceProgram program = {.classes = {{.members = 2, .items = {{0, 1}, {500'000'001, 0}}}},
                                 .capacity_bytes = 1'000'000'001,
                                 .slack_cost = 1e-9,
                                 .start = {{2, 0}},
                                 .start_cost = 3};
  const ChoiceSolution solution = Solve(program).value();
  CHECK(solution.counts[0][1] < 2);
  CHECK(solution.cost_bound <= 1.5);
}

TEST_CASE("a calling program that also uses GLPK keeps its problems and settings") {
  glp_term_out(GLP_OFF);
  glp_prob* const mine = glp_create_prob();
  glp_set_prob_name(mine, "mine");
  CHECK(Solve(SmallProgram()).ok());
  CHECK(std::string(glp_get_prob_name(mine)) == "mine");
  CHECK(glp_term_out(GLP_ON) == GLP_OFF);
  glp_delete_prob(mine);
  glp_free_env();
}

}  // namespace
}  // namespace neap
