// Ranks on two GPUs of this machine, which NCCL sums.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "neap/layers/collectives/nccl_ranks.h"
#include "tests/gpu_test.h"
#include "tests/random_graph.h"
#include "tests/rank_training.h"

namespace neap::testing {
namespace {

class GpuRanks {
 public:
  GpuRanks() : gpus_(OpenGpusOrSkip(2)) {
    std::vector<CudaDevice*> devices;
    for (const std::unique_ptr<CudaDevice>& gpu : gpus_) devices.push_back(gpu.get());
    if (devices.empty()) return;
    auto joined = JoinByNccl(devices);
    REQUIRE_MESSAGE(joined.ok(), joined.status().ToString());
    communicators_ = *std::move(joined);
  }
  bool skipped() const { return gpus_.empty(); }
  CudaDevice& gpu(size_t rank) const { return *gpus_[rank]; }

  std::vector<Trained> Train(const RankTraining& training,
                             const std::vector<PlannerOptions>& planning) const {
    std::vector<Trained> trained(gpus_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < gpus_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        trained[rank] = TrainRank(training, gpu(rank), planning[rank], *communicators_[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return trained;
  }

 private:
  std::vector<std::unique_ptr<CudaDevice>> gpus_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

TEST_CASE("random networks on two GPUs have the same bits in every budget") {
  const GpuRanks ranks;
  if (ranks.skipped()) return;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    const std::vector<int64_t> split =
        seed % 3 == 0 ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{2, 2};
    const RankTraining training = RandomRankTraining(seed, split);
    const PlannerOptions ample = {.policy = "liveness", .strict = true};
    const std::vector<Trained> expected = ranks.Train(training, {ample, ample});
    CHECK(expected[0] == expected[1]);
    const std::vector<Trained> tight =
        ranks.Train(training, {TightPolicy(training, seed, ranks.gpu(0), 0),
                               TightPolicy(training, seed + 3, ranks.gpu(1), 1)});
    CHECK(tight == expected);
  }
}

// Batch norms of a few values would turn rounding errors into other signs.
TEST_CASE("random networks without batch norm train on two GPUs what they train on two CPUs") {
  constexpr float kMinScale = 0.01F;
  const GpuRanks ranks;
  if (ranks.skipped()) return;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    RankTraining training = RandomRankTraining(seed, {1, 3});
    training.net = [seed](int64_t batch) {
      return RandomGraph(seed, {.batch = batch, .batch_norm = false, .dropout = seed % 2 == 0});
    };
    const PlannerOptions ample = {.policy = "liveness", .strict = true};
    const Trained on_cpus = TrainOnThreads(training, {ample})[0];
    CHECK(AreClose(ranks.Train(training, {ample, ample})[0], on_cpus, 2e-3F, kMinScale));
  }
}

TEST_CASE("a sharded optimizer on two GPUs trains the same bits in every budget") {
  const GpuRanks ranks;
  if (ranks.skipped()) return;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    // Sums of running statistics with other weights than powers of two have other bits in other
    // buckets.
    RankTraining training = RandomRankTraining(seed, {2, 2});
    training.net = [seed](int64_t batch) {
      RandomGraphOptions options = {.batch = batch, .max_channels = 24};
      if (seed % 2 == 1) options.dtype = DType::kBf16;
      if (seed % 4 > 1) options.layout = Layout::kChannelsLast;
      return RandomGraph(seed, options);
    };
    const PlannerOptions ample = {.policy = "liveness", .strict = true};
    const std::vector<Trained> expected = ranks.Train(training, {ample, ample});
    training.shard_optimizer = true;
    CHECK(ranks.Train(training, {ample, ample}) == expected);
    CHECK(ranks.Train(training, {TightPolicy(training, seed, ranks.gpu(0), 0),
                                 TightPolicy(training, seed + 3, ranks.gpu(1), 1)}) == expected);
  }
}

}  // namespace
}  // namespace neap::testing
