#include "neap/core/plan/budget_refusal.h"

#include <doctest/doctest.h>

#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "tests/small_training.h"

namespace neap {
namespace {

TEST_CASE("a refusal carries the smallest budget, other errors do not") {
  const absl::Status refusal = BudgetRefusal("too small", 4096);
  CHECK(absl::IsResourceExhausted(refusal));
  CHECK(refusal.message() == "too small");
  CHECK(SmallestBudget(refusal) == 4096);
  CHECK(!SmallestBudget(absl::ResourceExhaustedError("no memory")).has_value());
  CHECK(!SmallestBudget(absl::OkStatus()).has_value());
}

TEST_CASE("a session that is refused can be made in the budget that the refusal carries") {
  const auto device = OpenCpu();
  for (const char* const policy : {"", "tensor-cache"}) {
    const auto create = [&](int64_t budget_bytes) {
      return CreateSession(SmallNet(), *device, {.budget_bytes = budget_bytes, .policy = policy});
    };
    const absl::Status refusal = create(kKiB).status();
    REQUIRE(SmallestBudget(refusal).has_value());
    const int64_t smallest = *SmallestBudget(refusal);
    CHECK(create(smallest).ok());
    CHECK(SmallestBudget(create(smallest - kKiB).status()) == smallest);
  }
}

}  // namespace
}  // namespace neap
