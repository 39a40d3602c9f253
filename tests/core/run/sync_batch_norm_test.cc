// Batch norms with the statistics of all ranks: several ranks train what one trains with the whole
// batch, up to rounding, and in small budgets what they train with plenty of memory, bit for bit.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "tests/random_graph.h"
#include "tests/rank_training.h"

namespace neap::testing {
namespace {

RankTraining SyncTraining(uint32_t seed, std::vector<int64_t> split,
                          const RandomGraphOptions& of_graph = {}) {
  RankTraining training = RandomRankTraining(seed, std::move(split));
  training.net = [seed, of_graph](int64_t batch) {
    RandomGraphOptions options = of_graph;
    options.batch = batch;
    return RandomGraph(seed, options);
  };
  training.sync_batch_norm = true;
  return training;
}

// A bias in front of a batch norm has no gradient, only rounding errors.
constexpr float kMinScale = 0.01F;

TEST_CASE("ranks that synchronise batch norms train what one rank trains with the whole batch") {
  for (const std::vector<int64_t>& split :
       {std::vector<int64_t>{8, 8}, {11, 5}, {4, 4, 4, 4}, {7, 1, 3, 5}}) {
    // In these networks no maximum and no sign is so near a tie that rounding decides it, which
    // would change a gradient by far more than rounding.
    for (const uint32_t seed : {5U, 8U, 10U}) {
      CAPTURE(seed);
      CAPTURE(split.back());
      RankTraining training = SyncTraining(seed, split);
      training.steps = 20;
      const std::vector<Trained> trained = TrainOnThreads(training, {{.policy = "keep-all"}});
      for (const Trained& of_rank : trained) CHECK(AreSame(of_rank, trained[0]));
      const Trained alone = TrainAlone(training);
      CHECK(AreClose(trained[0], alone, 1e-4F, kMinScale));
      training.sync_batch_norm = false;
      CHECK(!AreClose(TrainOnThreads(training, {{.policy = "keep-all"}})[0], alone, 0.01F,
                      kMinScale));
    }
  }
}

TEST_CASE("random networks with batch norms over all ranks have the bits of plenty of memory") {
  for (uint32_t seed = 0; seed < RandomSeeds(40); ++seed) {
    CAPTURE(seed);
    const RankTraining training =
        SyncTraining(seed, {2, 2}, {.residual = seed % 3 == 1, .dense = seed % 3 == 2});
    const Trained expected = TrainOnThreads(training, {{.policy = "keep-all"}})[0];
    const std::vector<PlannerOptions> planning = {TightPolicy(training, seed),
                                                  TightPolicy(training, seed + 3)};
    for (const Trained& trained : TrainOnThreads(training, planning))
      CHECK(AreSame(trained, expected));
  }
}

TEST_CASE(
    "ranks that synchronise batch norms evaluate between their steps, which changes nothing") {
  const auto device = OpenCpu();
  for (uint32_t seed = 0; seed < RandomSeeds(12); ++seed) {
    CAPTURE(seed);
    RankTraining training =
        SyncTraining(seed, {2, 2}, {.residual = seed % 2 == 0, .dense = seed % 4 == 1});
    training.steps = 4;
    const Trained expected = TrainOnThreads(training, {{.policy = "keep-all"}})[0];
    training.evaluates = true;
    training.shard_optimizer = seed % 3 == 0;
    const std::vector<PlannerOptions> planning = {TightPolicy(training, seed, *device, 0),
                                                  TightPolicy(training, seed + 3, *device, 1)};
    for (const Trained& trained : TrainOnThreads(training, planning))
      CHECK(AreSame(trained, expected));
  }
}

TEST_CASE("ranks of 16 bits synchronise batch norms, and skip the same steps") {
  for (const DType dtype : {DType::kFp16, DType::kBf16}) {
    const RankTraining training =
        SyncTraining(4, {2, 3}, {.dtype = dtype, .layout = Layout::kChannelsLast});
    const std::vector<Trained> trained =
        TrainOnThreads(training, {{.policy = "liveness"}, {.policy = "keep-all"}});
    CHECK(AreSame(trained[0], trained[1]));
  }
}

TEST_CASE("one rank has nothing to synchronise") {
  RankTraining training = SyncTraining(5, {4});
  const Trained alone = TrainAlone(training);
  training.sync_batch_norm = false;
  CHECK(AreSame(TrainAlone(training), alone));
}

}  // namespace
}  // namespace neap::testing
