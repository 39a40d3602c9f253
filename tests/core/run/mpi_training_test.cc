// Ranks in processes that mpirun has started train what one process computes for them: random
// networks under all policies in small budgets. CTest runs it by mpirun with 2 and with 4 ranks.
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "neap/layers/collectives/mpi_ranks.h"
#include "tests/layers/collectives/large_bucket.h"
#include "tests/random_graph.h"
#include "tests/rank_training.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

std::string Bytes(const Trained& trained) {
  std::string bytes;
  for (const std::vector<float>& values : trained)
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return bytes;
}

TEST_CASE("ranks in processes train bit for bit what one process computes") {
  if (!RanksOfMpi().has_value()) return SkipCase("it was not started by mpirun");
  absl::StatusOr<std::unique_ptr<MpiRanks>> mpi = MpiRanks::Start();
  REQUIRE_MESSAGE(mpi.ok(), mpi.status().ToString());
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  absl::StatusOr<std::unique_ptr<Communicator>> communicator = (*mpi)->Join(*device);
  REQUIRE_MESSAGE(communicator.ok(), communicator.status().ToString());
  REQUIRE((*mpi)->ranks() == RanksOfMpi());
  REQUIRE((*mpi)->ranks() > 1);
  CheckLargeBucket(*device, **communicator);
  CheckLargeShards(*device, **communicator);
  const std::vector<int64_t> split(static_cast<size_t>((*mpi)->ranks()), 2);
  const auto rank = static_cast<size_t>((*mpi)->rank());

  RankTraining long_training = RandomRankTraining(5, split);
  long_training.steps = 20;
  CHECK(AreSame(TrainRank(long_training, *device, {.policy = "keep-all"}, **communicator),
                Reference(long_training)));
  // With the statistics of all ranks in batch norms.
  long_training.sync_batch_norm = true;
  CHECK(AreSame(
      TrainRank(long_training, *device, TightPolicy(long_training, 3 * rank), **communicator),
      TrainOnThreads(long_training, {{.policy = "keep-all"}})[rank]));
  // With masters and momenta of a slice of each parameter.
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    RankTraining sharded = long_training;
    sharded.net = [dtype](int64_t batch) {
      return RandomGraph(5, {.batch = batch, .max_channels = 24, .dropout = false, .dtype = dtype});
    };
    const Trained expected = TrainOnThreads(sharded, {{.policy = "keep-all"}})[rank];
    sharded.shard_optimizer = true;
    const PlannerOptions planning = TightPolicy(sharded, 3 * rank, *device, rank);
    CHECK(AreSame(TrainRank(sharded, *device, planning, **communicator), expected));
  }
  // Each rank checks one network of as many as there are ranks, for all ranks: 200 by two ranks,
  // and fewer by more, because they share the machine's cores.
  const auto ranks = static_cast<uint32_t>(split.size());
  for (uint32_t seed = 0; seed < RandomSeeds(400 / ranks); seed += ranks) {
    std::vector<std::vector<std::string>> trained;  // by network, by rank
    for (uint32_t n = 0; n < split.size(); ++n) {
      CAPTURE(seed + n);
      const RankTraining training = RandomRankTraining(seed + n, split);
      const PlannerOptions planning = TightPolicy(training, seed + n + 3 * rank);
      trained.push_back(
          *(*communicator)
               ->Exchange(Bytes(TrainRank(training, *device, planning, **communicator))));
    }
    CAPTURE(seed + rank);
    const std::string expected =
        Bytes(Reference(RandomRankTraining(seed + static_cast<uint32_t>(rank), split)));
    for (const std::string& of_rank : trained[rank]) CHECK(of_rank == expected);
  }
}

}  // namespace
}  // namespace neap::testing
