// How large the buckets are in which ranks sum gradients (memory/program_choice.h).
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "neap/core/plan/collective_cost.h"
#include "neap/core/program/passes.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/planner.h"
#include "neap/memory/program_choice.h"
#include "neap/nets/registry.h"
#include "tests/memory/planning.h"

namespace neap {
namespace {

using testing::H200;

// ResNet-50 on the first of two H200, with placeholders for engines.
class TwoRanks {
 public:
  explicit TwoRanks(const DeviceDescription& device) : device_(device) {}

  BucketSizes Choose(const PlannerOptions& options = {}) {
    const auto lower = [this](const ProgramChoice& choice) { return Lowered(choice.buckets); };
    return ChooseProgram(lower, options, device_, catalog_).value().choice.buckets;
  }
  double PredictedMs(const BucketSizes& buckets) {
    const Program program = Lowered(buckets).value();
    return MakePlan(program, {.policy = "liveness"}, device_, catalog_).value().plan.predicted_ms;
  }

 private:
  absl::StatusOr<Program> Lowered(const BucketSizes& buckets) const {
    const RankShare share = {.rank = 0, .ranks = 2, .first_image = 0, .all_images = 64};
    return Lower(graph_,
                 {.share = share,
                  .bucket_bytes = buckets.bucket_bytes,
                  .last_bucket_bytes = buckets.last_bucket_bytes},
                 device_);
  }

  DeviceDescription device_;
  Graph graph_ = nets::Build("resnet50", {.batch = 32}).value();
  DefaultCatalog catalog_;
};

DeviceDescription Linked(double bytes_per_second, double hop_seconds) {
  return WithCollectives(H200(), 2, {bytes_per_second, hop_seconds});
}

// Measured sums over two ranks, and nothing else.
class TimedSums final : public KernelTimings {
 public:
  std::vector<TimedEngine> Of(const StepSignature& /*signature*/) const override { return {}; }
  std::vector<TimedSum> Sums(int ranks) const override {
    if (ranks != 2) return {};
    return {{4096, 1e-5}, {4096 + 1'000'000'000, 1e-5 + 1}};
  }
};

TEST_CASE("buckets have the size with which an iteration is predicted to take the least time") {
  for (const DeviceDescription& device :
       {Linked(1e9, 1e-6), Linked(20e9, 5e-6), Linked(20e9, 2e-3), Linked(400e9, 1e-4)}) {
    CAPTURE(device.collective_bandwidth);
    CAPTURE(device.collective_latency_seconds);
    TwoRanks ranks(device);
    const BucketSizes chosen = ranks.Choose();
    CHECK(std::count(std::begin(kBucketChoices), std::end(kBucketChoices), chosen) == 1);
    const double least_ms = ranks.PredictedMs(chosen);
    for (const BucketSizes& sizes : kBucketChoices) CHECK(least_ms <= ranks.PredictedMs(sizes));
  }
  // A slow link wants to begin early, many latencies cost more.
  CHECK(TwoRanks(Linked(1e9, 1e-6)).Choose().bucket_bytes <
        TwoRanks(Linked(20e9, 2e-3)).Choose().bucket_bytes);
}

TEST_CASE("a fast link sums beneath the long steps at the end of backward") {
  CHECK(TwoRanks(Linked(400e9, 1e-5)).Choose().last_bucket_bytes > 0);
}

TEST_CASE("the size is that of the options, or the usual one where nothing is known of sums") {
  CHECK(TwoRanks(Linked(1e9, 1e-6)).Choose({.bucket_bytes = 12345}) == BucketSizes{12345});
  CHECK(TwoRanks(H200()).Choose() == BucketSizes{});
}

TEST_CASE("measured sums count where the device is not described with others") {
  PlannerOptions options = {.policy = "liveness"};
  options.kernels.timings = std::make_shared<TimedSums>();
  const DeviceDescription slow = Linked(2e9, 0);
  CHECK(TwoRanks(H200()).Choose(options) ==
        TwoRanks(WithMeasuredSums(H200(), options.kernels.timings->Sums(2))).Choose());
  CHECK(TwoRanks(slow).Choose(options) == TwoRanks(slow).Choose());
}

}  // namespace
}  // namespace neap
