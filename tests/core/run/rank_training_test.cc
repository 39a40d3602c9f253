// Ranks on threads of this process train what one process computes for them, step by step, under
// every policy and in small budgets. mpi_training_test.cc has the same for processes.
#include "tests/rank_training.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "neap/core/run/ranks.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/memory/create_session.h"
#include "tests/random_graph.h"

namespace neap::testing {
namespace {

TEST_CASE("two and four ranks train bit for bit what one process computes") {
  for (const std::vector<int64_t>& split : {std::vector<int64_t>{2, 2}, {2, 2, 2, 2}}) {
    CAPTURE(split.size());
    RankTraining training = RandomRankTraining(5, split);
    training.steps = 20;
    const Trained expected = Reference(training);
    for (const Trained& trained : TrainOnThreads(training, {{.policy = "keep-all"}}))
      CHECK(AreSame(trained, expected));
  }
}

TEST_CASE("random networks, each rank with a policy and a small budget of its own") {
  for (uint32_t seed = 0; seed < RandomSeeds(40); ++seed) {
    CAPTURE(seed);
    const RankTraining training = RandomRankTraining(seed, {2, 2});
    const Trained expected = Reference(training);
    const std::vector<PlannerOptions> planning = {TightPolicy(training, seed),
                                                  TightPolicy(training, seed + 3)};
    for (const Trained& trained : TrainOnThreads(training, planning))
      CHECK(AreSame(trained, expected));
  }
}

TEST_CASE("uneven parts of the batch are one batch, dropout included") {
  const RankTraining training = {
      .net = [](int64_t batch) { return RandomGraph(3, {.batch = batch, .batch_norm = false}); },
      .split = {1, 4, 2},
      .steps = 5,
      .image_values = 3 * 8 * 8};
  const Trained alone = TrainAlone(training);
  const std::vector<Trained> trained = TrainOnThreads(training, {{.policy = "keep-all"}});
  for (const Trained& of_rank : trained) {
    CHECK(AreSame(of_rank, trained[0]));
    CHECK(AreClose(of_rank, alone, 1e-4F));
  }
}

TEST_CASE("ranks with sub-batches of their own are one batch") {
  const RankTraining training = {
      .net = [](int64_t batch) { return RandomGraph(3, {.batch = batch, .batch_norm = false}); },
      .split = {4, 2},
      .steps = 5,
      .image_values = 3 * 8 * 8,
      .bucket_bytes = 300};
  const Trained alone = TrainAlone(training);
  for (const int64_t sub_batches : {2, 3}) {
    const PlannerOptions planning = {
        .policy = "liveness", .sub_batches = sub_batches, .bucket_bytes = 300};
    PlannerOptions whole = {.policy = "liveness", .sub_batches = 1, .bucket_bytes = 300};
    const std::vector<Trained> trained = TrainOnThreads(training, {planning, whole});
    CHECK(AreSame(trained[0], trained[1]));
    CHECK(AreClose(trained[0], alone, 1e-4F));
  }
}

TEST_CASE("ranks have batch norms of parts of their own") {
  const RankTraining training = {
      .net = [](int64_t batch) { return RandomGraph(4, {.batch = batch}); },
      .split = {6, 5},
      .steps = 4,
      .image_values = 3 * 8 * 8,
      .bucket_bytes = 300};
  const PlannerOptions planning = {
      .policy = "liveness", .sub_batches = 2, .batch_norm_in_parts = true, .bucket_bytes = 300};
  const std::vector<Trained> trained = TrainOnThreads(training, {planning});
  CHECK(AreSame(trained[0], trained[1]));
}

TEST_CASE("ranks in fp16 skip the same steps and keep the same scale") {
  const RankTraining training = {
      .net = [](int64_t batch) { return RandomGraph(4, {.batch = batch, .dtype = DType::kFp16}); },
      .split = {2, 3},
      .steps = 6,
      .image_values = 3 * 8 * 8};
  const std::vector<Trained> trained =
      TrainOnThreads(training, {{.policy = "liveness", .bucket_bytes = 300, .buckets_in_flight = 1},
                                {.policy = "liveness", .bucket_bytes = 300}});
  CHECK(AreSame(trained[0], trained[1]));
}

TEST_CASE("all ranks sum in buckets of the size that rank 0 has chosen") {
  const RankTraining training = RandomRankTraining(4, {2, 2});
  const PlannerOptions small = {.policy = "liveness", .bucket_bytes = 200};
  const PlannerOptions large = {.policy = "liveness", .bucket_bytes = 20000};
  CHECK(TrainOnThreads(training, {small, large}) == TrainOnThreads(training, {small, small}));
}

TEST_CASE("all ranks change to another graph, or none") {
  const auto train = [](int rank, LocalRanks& group, bool with_block) {
    const std::unique_ptr<CpuDevice> device = OpenCpu();
    const auto communicator = group.Join(rank, *device);
    TrainingOptions options;
    options.communicator = communicator.get();
    Session session = MakeSession(*device, {.policy = "liveness"}, options);
    Train(session, 1);
    const absl::Status changed =
        session.SetTrainingGraph(SmallNet(Layout::kChannelsFirst, with_block));
    Train(session, 2);  // with the new graph, or with the old one
    return std::pair(std::string(changed.message()), *session.Values("conv2.weight"));
  };
  for (const bool differ : {false, true}) {
    CAPTURE(differ);
    LocalRanks group(2);
    std::pair<std::string, std::vector<float>> other;
    std::thread thread([&] { other = train(1, group, differ); });
    const auto own = train(0, group, false);
    thread.join();
    CHECK(own.first.empty() == !differ);
    CHECK(own.first == other.first);
    CHECK(own.second == other.second);
  }
}

TEST_CASE("ranks that differ fail together, with the rank and the difference") {
  const auto create = [](int rank, LocalRanks& group, uint64_t seed,
                         const PlannerOptions& planning) {
    const std::unique_ptr<CpuDevice> device = OpenCpu();
    const auto communicator = group.Join(rank, *device);
    TrainingOptions options = {.seed = seed};
    options.communicator = communicator.get();
    return CreateSession(SmallNet(), *device, planning, options).status();
  };
  const auto both = [&](uint64_t seed, const PlannerOptions& planning) {
    LocalRanks group(2);
    absl::Status other;
    std::thread thread([&] { other = create(1, group, seed, planning); });
    const absl::Status own = create(0, group, 1, {});
    thread.join();
    // One of them reports the error.
    CHECK((IsOfAnotherRank(own) != IsOfAnotherRank(other)) == !own.ok());
    return std::pair(std::string(own.message()), std::string(other.message()));
  };
  CHECK(both(1, {}) == std::pair<std::string, std::string>());
  const auto [own, other] = both(2, {});
  CHECK(own == "rank 1 and rank 0 differ in their seed: 2 and 1");
  CHECK(other == own);
  const auto [of_first, of_second] = both(1, {.budget_bytes = 1000});
  CHECK(of_second.find("a budget of 1000 bytes") == 0);
  CHECK(of_first == "rank 1: " + of_second);
  // One that fails before its program is chosen.
  const auto [first, second] = both(1, {.budget_bytes = 1000, .policy = "nonsense"});
  CHECK(second.find("nonsense") != std::string::npos);
  CHECK(first == "rank 1: " + second);
}

TEST_CASE("a rank that leaves is named to the others") {
  LocalRanks group(2);
  const std::unique_ptr<CpuDevice> device = OpenCpu(), gone = OpenCpu();
  const auto communicator = group.Join(0, *device);
  group.Join(1, *gone).reset();
  const absl::Status exchanged = communicator->Exchange("text").status();
  CHECK(exchanged == absl::UnavailableError("rank 1 has ended"));
  std::vector<float> values(3);
  const std::vector<ReduceBuffer> summed = {{.data = values.data(), .count = 3}};
  REQUIRE(communicator->AllReduce(summed).ok());
  CHECK(device->Synchronize() == absl::UnavailableError("rank 1 has ended"));
}

TEST_CASE("a rank that does not answer is named after the timeout") {
  LocalRanks group(3, std::chrono::milliseconds(20));
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  const auto communicator = group.Join(0, *device);
  CHECK(communicator->Exchange("text").status() ==
        absl::UnavailableError("rank 1 does not answer"));
}

}  // namespace
}  // namespace neap::testing
