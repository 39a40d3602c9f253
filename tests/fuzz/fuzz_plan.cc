#include "neap/core/plan/plan.h"
#include "neap/core/verifier/verifier.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/small_training.h"

namespace neap::testing {

std::vector<std::string> FuzzSeeds() {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  std::vector<std::string> plans;
  for (const char* policy : {"liveness", "tensor-cache", "superneurons", "auto"})
    plans.push_back(MakeSession(*device, Tight(*device, policy)).plan().ToJson());
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
