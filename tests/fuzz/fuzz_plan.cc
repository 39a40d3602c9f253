#include "neap/core/plan/plan.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/create_session.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/random_graph.h"
#include "tests/small_training.h"

namespace neap::testing {

std::vector<std::string> FuzzSeeds() {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  std::vector<std::string> plans;
  for (const char* policy : {"liveness", "tensor-cache", "superneurons", "auto"})
    plans.push_back(MakeSession(*device, Tight(*device, policy)).plan().ToJson());
  for (const int axes : {1, 3}) {
    const Graph graph = RandomGraph(/*seed=*/1, {.axes = axes, .image = 4});
    plans.push_back(CreateSession(graph, *device, {})->plan().ToJson());
  }
  return plans;
}

void ReadFuzzed(std::string_view bytes) {
  const absl::StatusOr<Plan> plan = Plan::FromJson(bytes);
  if (!plan.ok()) return;
  Verify(*plan).IgnoreError();
  const std::string text = plan->ToJson();
  const absl::StatusOr<Plan> again = Plan::FromJson(text);
  if (!again.ok() || again->ToJson() != text) FailFuzzed("an accepted plan is written otherwise");
}

}  // namespace neap::testing
