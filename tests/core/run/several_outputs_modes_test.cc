// Networks with layers of several outputs, whose batch is divided among ranks or summed from
// several, or whose graph changes: training is that of one session with the whole batch, bit for
// bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/memory/create_session.h"
#include "tests/core/run/gated_net.h"
#include "tests/core/run/random_training.h"
#include "tests/given_gradients.h"
#include "tests/random_graph.h"
#include "tests/random_splits.h"
#include "tests/rank_training.h"
#include "tests/small_training.h"

namespace neap::several_outputs_test {

using testing::CheckSameParameters;
using testing::GatedNet;
using testing::GatedOptions;
using testing::Halving;
using testing::RankTraining;

namespace {

constexpr DType kTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};
constexpr const char* kPolicies[] = {"liveness", "tensor-cache", "superneurons", "auto"};

// Of two ranks, with a plain and with a sharded optimizer, in all memory and in little.
void CheckRanks(RankTraining training, size_t policy, const Trained& expected) {
  for (const bool shards : {false, true}) {
    CAPTURE(shards);
    training.shard_optimizer = shards;
    const std::vector<PlannerOptions> tight = {TightPolicy(training, policy),
                                               TightPolicy(training, policy + 3, *OpenCpu(), 1)};
    for (const auto& planning : {std::vector<PlannerOptions>{{.policy = "keep-all"}}, tight}) {
      for (const Trained& trained : testing::TrainOnThreads(training, planning))
        CHECK(AreSame(trained, expected));
    }
  }
}

TEST_CASE("two ranks train a split as one process does, also with a sharded optimizer") {
  RankTraining training = {.net = [](int64_t batch) { return GatedNet({.batch = batch}); },
                           .split = {2, 2},
                           .steps = 5,
                           .image_values = 3 * 8 * 8,
                           .bucket_bytes = 600};
  const Trained expected = testing::Reference(training);
  training.net = [](int64_t batch) {
    return GatedNet({.batch = batch, .halving = Halving::kSlices});
  };
  CHECK(AreSame(testing::Reference(training), expected));
  training.net = [](int64_t batch) { return GatedNet({.batch = batch}); };
  for (size_t policy = 0; policy < 3; ++policy) CheckRanks(training, policy, expected);
}

TEST_CASE("two ranks train a split in 16 bits as they do slices") {
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    const auto net = [&](Halving halving) {
      return [=](int64_t batch) {
        return GatedNet(
            {.batch = batch, .dtype = dtype, .layout = Layout::kChannelsLast, .halving = halving});
      };
    };
    RankTraining training = {.net = net(Halving::kSlices),
                             .split = {3, 1},
                             .steps = 5,
                             .image_values = 3 * 8 * 8,
                             .bucket_bytes = 600};
    const Trained expected = testing::TrainOnThreads(training, {{.policy = "keep-all"}})[0];
    training.net = net(Halving::kSplit);
    training.shard_optimizer = dtype == DType::kBf16;  // which fp16 does not have
    for (const std::string policy : kPolicies) {
      CAPTURE(policy);
      const PlannerOptions planning = {.policy = policy, .bucket_bytes = 600};
      for (const Trained& trained : testing::TrainOnThreads(training, {planning}))
        CHECK(AreSame(trained, expected));
    }
  }
}

TEST_CASE("two ranks train random networks with splits as one process does") {
  const uint32_t seeds = testing::RandomSeeds(4);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    RankTraining training = testing::RandomRankTraining(seed, {2, 2});
    training.net = [seed](int64_t batch) {
      const testing::RandomGraphOptions of = {
          .batch = batch, .max_channels = 24, .dropout = false, .shares = seed % 4 == 1};
      return testing::WithSplits(testing::RandomGraph(seed, of), seed);
    };
    CheckRanks(training, seed, testing::Reference(training));
  }
}

// Two steps, each of a batch in as many parts.
void TrainInParts(Session& session, int64_t parts, int64_t images) {
  for (uint64_t step = 0; step < 2; ++step) {
    const Batch batch = MakeBatch(step);
    for (int64_t part = 0; part < parts; ++part) {
      const auto result = session.Accumulate(PartOf(batch, part * images, images));
      REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    }
    REQUIRE(session.Update().ok());
  }
}

TEST_CASE("gradients through a split that are summed over batches are those of sub-batches") {
  const auto device = OpenCpu();
  for (const DType dtype : kTypes) {
    CAPTURE(Name(dtype));
    Session whole = Opened(GatedNet({.dtype = dtype, .halving = Halving::kSlices}), *device,
                           {.policy = "keep-all", .sub_batches = 4});
    Train(whole, 2);
    const Graph quarter = GatedNet({.batch = 2, .dtype = dtype});
    for (const std::string policy : kPolicies) {
      CAPTURE(policy);
      PlannerOptions planning = {.policy = policy};
      for (int run = 0; run < 2; ++run) {  // the second one in the smallest budget
        Session summed = Opened(quarter, *device, planning, {.accumulate = 4});
        TrainInParts(summed, 4, 2);
        CheckSameParameters(whole, summed);
        planning.budget_bytes = summed.planning().minimum_budget_bytes;
      }
    }
    Session in_parts = Opened(GatedNet({.batch = 4, .dtype = dtype}), *device,
                              {.policy = "superneurons", .sub_batches = 2}, {.accumulate = 2});
    TrainInParts(in_parts, 2, 4);
    CheckSameParameters(whole, in_parts);
  }
}

TEST_CASE("random networks with splits train with sums over batches as with sub-batches") {
  const auto device = OpenCpu();
  const uint32_t seeds = testing::RandomSeeds(6);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const auto net = [&](int64_t batch) {
      testing::RandomGraphOptions of = {.batch = batch, .batch_norm = false};
      of.dtype = kTypes[seed % 3];
      of.shares = seed % 4 == 1;
      return testing::WithSplits(testing::RandomGraph(seed, of), seed);
    };
    Session whole =
        Opened(net(8), *device, {.policy = "keep-all", .sub_batches = 2}, testing::kRandomTraining);
    Train(whole, 2);
    TrainingOptions accumulating = testing::kRandomTraining;
    accumulating.accumulate = 2;
    PlannerOptions planning = {.policy = kPolicies[seed % std::size(kPolicies)]};
    planning.budget_bytes =
        Opened(net(4), *device, planning, accumulating).planning().minimum_budget_bytes;
    Session summed = Opened(net(4), *device, planning, accumulating);
    TrainInParts(summed, 2, 4);
    CheckSameParameters(whole, summed);
  }
}

// The graph of a step: the whole network, a part of it, or one in which an output is not read.
GatedOptions OptionsOf(int step, DType dtype, Halving halving) {
  GatedOptions options = {.dtype = dtype, .halving = halving};
  options.second_block = step % 3 != 1;
  options.gates = step % 3 != 2;
  return options;
}

// Returns the losses, and the smallest budget for all graphs.
std::pair<std::vector<float>, int64_t> TrainVarying(Session& session, DType dtype,
                                                    Halving halving) {
  std::vector<float> losses;
  int64_t budget_bytes = 0;
  for (int step = 0; step < 7; ++step) {
    const absl::Status set = session.SetTrainingGraph(GatedNet(OptionsOf(step, dtype, halving)));
    REQUIRE_MESSAGE(set.ok(), set.ToString());
    budget_bytes = std::max(budget_bytes, session.planning().minimum_budget_bytes);
    losses.push_back(Train(session, 1));
    const MemoryUse use = session.memory();
    CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
  }
  return {losses, budget_bytes};
}

TEST_CASE("graphs that leave out splits or readers of their outputs train as those with slices") {
  const auto device = OpenCpu();
  for (const DType dtype : kTypes) {
    CAPTURE(Name(dtype));
    Session reference = Opened(GatedNet({.dtype = dtype, .halving = Halving::kSlices}), *device,
                               {.policy = "keep-all", .in_place = false});
    const std::vector<float> losses = TrainVarying(reference, dtype, Halving::kSlices).first;
    for (const std::string policy : kPolicies) {
      CAPTURE(policy);
      PlannerOptions planning = {.policy = policy};
      for (int run = 0; run < 2; ++run) {  // the second one in the smallest budget
        Session session = Opened(GatedNet({.dtype = dtype}), *device, planning);
        const auto [own, budget_bytes] = TrainVarying(session, dtype, Halving::kSplit);
        CHECK(own == losses);
        CheckSameParameters(reference, session);
        planning.budget_bytes = budget_bytes;
      }
    }
  }
}

}  // namespace
}  // namespace neap::several_outputs_test
