// The planner's choice whether the next batch arrives while an iteration runs.
#include <doctest/doctest.h>

#include <vector>

#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/memory/planning.h"

namespace neap {
namespace {

using testing::IterationMs;

// The H200, or a device that differs from it only in that batches cannot arrive ahead.
DeviceDescription DeviceWith(bool has_own_memory) {
  DeviceDescription device = testing::H200();
  device.has_own_memory = has_own_memory;
  return device;
}

Program SmallResNet(ProgramOptions options = {}) {
  return BuildProgram(*nets::Build("resnet-cifar", {.batch = 16, .depth = 8}), options).value();
}

PlanResult PlanFor(const Program& program, const PlannerOptions& options,
                   const DeviceDescription& device = DeviceWith(true)) {
  DefaultCatalog catalog;
  absl::StatusOr<PlanResult> result = MakePlan(program, options, device, catalog);
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  REQUIRE(Verify(result->plan).ok());
  return *std::move(result);
}

int64_t BatchBytes(const Program& program) {
  int64_t bytes = 0;
  for (const Tensor& tensor : program.tensors)
    bytes += IsBatch(tensor.role) ? RoundUp(tensor.spec.size_bytes(), kBlockBytes) : 0;
  return bytes;
}

//   ^ offset
//   |=incoming batch==================|
//   |  the plan that has no budget    |
//   +---------------------------------+
TEST_CASE("without a budget the incoming batch lies above everything else") {
  const Program program = SmallResNet();
  for (const char* const policy : {"keep-all", "liveness", "offload", "superneurons"}) {
    CAPTURE(policy);
    const PlanResult before = PlanFor(program, {.policy = policy}, DeviceWith(false));
    const PlanResult ahead = PlanFor(program, {.policy = policy});
    CHECK(!before.plan.incoming_batch.has_value());
    CHECK(ahead.plan.incoming_batch == Region{before.plan.peak_bytes, BatchBytes(program)});
    CHECK(ahead.plan.peak_bytes == before.plan.peak_bytes + BatchBytes(program));
    CHECK(ahead.plan.arena_bytes == ahead.plan.peak_bytes);
    CHECK(ahead.plan.actions == before.plan.actions);
    CHECK(ahead.plan.predicted_ms == before.plan.predicted_ms);
    CHECK(ahead.stats.batch_copy_ms < before.stats.batch_copy_ms);
    CHECK(ahead.stats.minimum_budget_bytes == before.stats.minimum_budget_bytes);
  }
}

//   |==|  incoming batch
//   |  |  +--+ memory of the device
//   |  |  |  |
//   +--+  +--+
TEST_CASE("without a budget the incoming batch gives way where the device's memory is too small") {
  const Program program = SmallResNet();
  const PlanResult roomy = PlanFor(program, {.policy = "liveness"});
  DeviceDescription device = DeviceWith(true);
  device.memory_bytes = roomy.plan.arena_bytes;
  CHECK(PlanFor(program, {.policy = "liveness"}, device).plan == roomy.plan);
  device.memory_bytes = roomy.plan.arena_bytes - 1;
  const PlanResult small = PlanFor(program, {.policy = "liveness"}, device);
  CHECK(!small.plan.incoming_batch.has_value());
  CHECK(small.plan.arena_bytes == roomy.plan.arena_bytes - BatchBytes(program));
  device.memory_bytes = 0;  // unknown
  CHECK(PlanFor(program, {.policy = "liveness"}, device).plan == roomy.plan);
}

TEST_CASE("a budget has bytes for the incoming batch where that makes iterations faster") {
  const Program program = SmallResNet();
  for (const char* const policy : {"liveness", "tensor-cache", "superneurons"}) {
    CAPTURE(policy);
    const PlanResult roomy = PlanFor(program, {.policy = policy});
    const int64_t minimum = roomy.stats.minimum_budget_bytes;
    const int64_t most = roomy.plan.peak_bytes;
    int ahead = 0, before = 0;
    double last_ms = 0;
    constexpr int kBudgets = 24;
    for (int i = 0; i <= kBudgets; ++i) {
      const int64_t budget = minimum + (most - minimum) * i / kBudgets;
      CAPTURE(budget);
      const PlannerOptions options = {.budget_bytes = budget, .policy = policy};
      const PlanResult chosen = PlanFor(program, options);
      CHECK(chosen.plan.peak_bytes <= budget);
      CHECK(IterationMs(chosen) <= IterationMs(PlanFor(program, options, DeviceWith(false))));
      if (i > 0) CHECK(IterationMs(chosen) <= last_ms + 1e-9);
      last_ms = IterationMs(chosen);
      ++(chosen.plan.incoming_batch.has_value() ? ahead : before);
      if (i == 0) CHECK(before == 1);  // as many networks and batches are feasible as without
    }
    CHECK(ahead > 0);
    CHECK(last_ms == IterationMs(roomy));
    CHECK(
        PlanFor(program, {.budget_bytes = most, .policy = policy}).plan.incoming_batch.has_value());
  }
}

TEST_CASE("bytes that save more time than the batch's copy takes go to tensors") {
  const Program program = SmallResNet();
  const PlannerOptions free = {.policy = "superneurons"};
  // Enough for every tensor, but not for the incoming batch as well.
  const int64_t most = PlanFor(program, free, DeviceWith(false)).plan.peak_bytes;
  const PlannerOptions options = {.budget_bytes = most, .policy = "superneurons"};
  const auto is_ahead = [&](double bytes_per_second) {
    DeviceDescription device = DeviceWith(true);
    device.copy_bandwidth = bytes_per_second;
    return PlanFor(program, options, device).plan.incoming_batch.has_value();
  };
  CHECK(!is_ahead(1e15));  // a copy takes no time, and a recomputation does
  CHECK(is_ahead(1e6));    // the opposite
}

TEST_CASE("a plan with the incoming batch that exceeds the host budget gives way") {
  const Program program = SmallResNet();
  DeviceDescription fast = DeviceWith(true);  // so that the larger part of the transfers is hidden
  DeviceDescription fast_before = DeviceWith(false);
  fast.copy_bandwidth = fast_before.copy_bandwidth = 1e11;
  const PlanResult roomy = PlanFor(program, {.policy = "tensor-cache"}, fast);
  const int64_t minimum = roomy.stats.minimum_budget_bytes;
  int differing = 0;
  for (int i = 1; i < 16; ++i) {
    PlannerOptions options = {.budget_bytes = minimum + (roomy.plan.peak_bytes - minimum) * i / 16,
                              .policy = "tensor-cache"};
    const PlanResult ahead = PlanFor(program, options, fast);
    const PlanResult before = PlanFor(program, options, fast_before);
    if (before.plan.host_pool_bytes >= ahead.plan.host_pool_bytes) continue;
    REQUIRE(ahead.plan.incoming_batch.has_value());
    options.host_budget_bytes = before.plan.host_pool_bytes;
    CHECK(!PlanFor(program, options, fast).plan.incoming_batch.has_value());
    ++differing;
  }
  CHECK(differing > 0);
}

TEST_CASE(
    "batches arrive ahead only in training, on a device with its own memory, and not on paper") {
  CHECK(PlanFor(SmallResNet(), {}).plan.incoming_batch.has_value());
  CHECK(!PlanFor(SmallResNet(), {}, DeviceWith(false)).plan.incoming_batch.has_value());
  CHECK(!PlanFor(SmallResNet({.mode = Mode::kInference}), {}).plan.incoming_batch.has_value());
  CHECK(!PlanFor(SmallResNet({.accounting = Accounting::kPaper}), {})
             .plan.incoming_batch.has_value());
}

}  // namespace
}  // namespace neap
