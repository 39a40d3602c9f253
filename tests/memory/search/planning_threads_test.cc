// The threads of the plan search (memory/search/plan_search.h) and of the rebuild frontier.
#include <doctest/doctest.h>
#include <sched.h>

#include <cstdint>

#include "neap/core/base/parallel.h"
#include "neap/core/program/passes.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/memory/planning.h"
#include "tests/skip.h"

namespace neap {
namespace {

// Restricts this thread, and those that it starts, to one of its cores while it exists.
class OnOneCore {
 public:
  OnOneCore() {
    REQUIRE(sched_getaffinity(0, sizeof(before_), &before_) == 0);
    int core = 0;
    while (!CPU_ISSET(core, &before_)) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
    REQUIRE(AvailableCores() == 1);
  }
  ~OnOneCore() { sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

TEST_CASE("plans do not depend on the number of threads that search for them") {
  if (AvailableCores() < 2) return testing::SkipCase("there is only one core");
  DefaultCatalog catalog;
  const Graph graph = nets::Build("resnet20", {.batch = 16}).value();
  const Program program = Lower(graph, {}, testing::H200()).value();
  const int64_t natural = MakePlan(program, {}, testing::H200(), catalog)->plan.peak_bytes;
  for (const int64_t percent : {80, 40}) {
    const PlannerOptions options = {.budget_bytes = natural * percent / 100};
    const Plan plan = MakePlan(program, options, testing::H200(), catalog)->plan;
    const OnOneCore alone;
    CHECK(MakePlan(program, options, testing::H200(), catalog)->plan.ToJson() == plan.ToJson());
  }
}

}  // namespace
}  // namespace neap
