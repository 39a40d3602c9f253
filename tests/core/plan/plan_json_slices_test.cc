#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "neap/core/plan/plan.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

TEST_CASE("the slices of a sharded optimizer are written if there are any, and read back") {
  const Plan plan = PlanFromScript(kShardPlan);
  const std::string json = plan.ToJson();
  const absl::StatusOr<Plan> read = Plan::FromJson(json);
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(*read == plan);
  CHECK(PlanFromScript(kSumPlan).ToJson().find("\"own\"") == std::string::npos);
  CHECK(PlanFromScript(kSumPlan).ToJson().find("\"slices\"") == std::string::npos);
  const auto refusal = [&](std::string_view from, std::string_view to) {
    return std::string(Plan::FromJson(Edited(json, from, to)).status().message());
  };
  const std::string_view slices = "\"slices\":[[4,0,128],[0,0,128]]";
  CHECK(refusal(slices, "\"slices\":[]") ==
        "plan: steps[4]: slices is empty; an empty field must be left out");
  CHECK(refusal(slices, "\"slices\":[[4,0]]") ==
        "plan: steps[4]: slices holds something other than slices");
  CHECK(refusal(slices, "\"slices\":[[5,0,128]]") ==
        "plan: steps[4]: an id is not the position of what it names");
  CHECK(refusal("\"bytes\":1024,\"own\":[0,128]},{\"id\":1",
                "\"bytes\":1024,\"own\":[0]},{\"id\":1") ==
        "plan: tensors[0]: own is not a pair of integers");
}

}  // namespace
}  // namespace neap
