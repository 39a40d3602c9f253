// Ranks with a sharded optimizer train what they train without, bit for bit, in less memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "neap/core/base/region.h"
#include "neap/core/program/shards.h"
#include "neap/core/run/parallel_session.h"
#include "neap/core/run/ranks.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "tests/random_graph.h"
#include "tests/rank_training.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

RankTraining WithShards(RankTraining training) {
  training.shard_optimizer = true;
  return training;
}

RankTraining RandomTraining(uint32_t seed, std::vector<int64_t> split,
                            const RandomGraphOptions& graph = {}) {
  RankTraining training = RandomRankTraining(seed, std::move(split));
  if (seed % 2 == 1) training.optimizer = {.rule = Optimizer::Rule::kAdamW, .weight_decay = 0.1F};
  training.net = [seed, graph](int64_t batch) {
    RandomGraphOptions options = graph;
    options.batch = batch;
    options.max_channels = 24;  // so that weights are divided
    options.shares = seed % 3 == 1;
    return RandomGraph(seed, options);
  };
  return training;
}

// In bf16, so with masters.
RankTraining HalfTraining(std::vector<int64_t> split, Layout layout = Layout::kChannelsLast) {
  RankTraining training = {.net = {}, .split = std::move(split), .image_values = 3 * 8 * 8};
  training.net = [layout](int64_t batch) {
    Graph net({.name = "half", .batch = batch, .dtype = DType::kBf16, .layout = layout});
    std::string x = net.Input({3, 8, 8});
    x = net.Add("conv1", Convolution{.out_channels = 16, .kernel = 3, .padding = 1}, {x});
    x = net.Add("bn1", BatchNorm{}, {x});
    x = net.Add("relu1", Relu{}, {x});
    x = net.Add("conv2", Convolution{.out_channels = 23, .kernel = 3, .stride = 2}, {x});
    x = net.Add("relu2", Relu{}, {x});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
    return net;
  };
  training.bucket_bytes = 4000;
  return training;
}

const std::vector<std::vector<int64_t>> kSplits = {{2, 2}, {2, 2, 2, 2}, {3, 1}, {1, 4, 2}};

TEST_CASE("two and four ranks train the same bits for 20 steps, in fp32 and in bf16") {
  for (const std::vector<int64_t>& split : kSplits) {
    CAPTURE(split.size());
    for (RankTraining training :
         {RandomTraining(5, split), RandomTraining(8, split, {.layout = Layout::kChannelsLast}),
          HalfTraining(split), HalfTraining(split, Layout::kChannelsFirst)}) {
      training.steps = 20;
      const Trained expected = TrainOnThreads(training, {{.policy = "keep-all"}})[0];
      training = WithShards(std::move(training));
      std::vector<PlannerOptions> tight;
      for (size_t rank = 0; rank < split.size(); ++rank)
        tight.push_back(TightPolicy(training, rank + 3, *OpenCpu(), rank));
      for (const auto& planning : {std::vector<PlannerOptions>{{.policy = "keep-all"}}, tight}) {
        for (const Trained& trained : TrainOnThreads(training, planning))
          CHECK(AreSame(trained, expected));
      }
    }
  }
}

TEST_CASE("random networks, each rank with a policy and a small budget of its own") {
  for (uint32_t seed = 0; seed < RandomSeeds(40); ++seed) {
    CAPTURE(seed);
    RankTraining training =
        RandomTraining(seed, {2, 2},
                       {.dropout = seed % 4 == 1,
                        .layout = seed % 2 == 0 ? Layout::kChannelsFirst : Layout::kChannelsLast,
                        .residual = seed % 3 == 1});
    training.sync_batch_norm = seed % 5 == 0;
    const Trained expected = TrainOnThreads(training, {{.policy = "keep-all"}})[0];
    training = WithShards(std::move(training));
    const std::vector<PlannerOptions> planning = {TightPolicy(training, seed),
                                                  TightPolicy(training, seed + 3, *OpenCpu(), 1)};
    for (const Trained& trained : TrainOnThreads(training, planning))
      CHECK(AreSame(trained, expected));
  }
}

TEST_CASE("ranks with sub-batches of their own train the same bits") {
  RankTraining training = RandomTraining(3, {4, 2}, {.batch_norm = false});
  training.steps = 5;
  const std::vector<PlannerOptions> planning = {
      {.policy = "liveness", .sub_batches = 2, .bucket_bytes = 300},
      {.policy = "liveness", .sub_batches = 1, .bucket_bytes = 300}};
  const Trained expected = TrainOnThreads(training, planning)[0];
  for (const Trained& trained : TrainOnThreads(WithShards(training), planning))
    CHECK(AreSame(trained, expected));
}

// Sessions of all ranks on CPUs of this process.
class ShardedRanks {
 public:
  explicit ShardedRanks(const RankTraining& training, bool evaluates = false)
      : training_(training), group_(static_cast<int>(training.split.size())) {
    std::vector<ParallelSession::Rank> ranks;
    for (size_t i = 0; i < training.split.size(); ++i) {
      devices_.push_back(OpenCpu());
      communicators_.push_back(group_.Join(static_cast<int>(i), *devices_[i]));
      ranks.push_back({.images = training.split[i],
                       .device = devices_[i].get(),
                       .planner = PlannerFor({.policy = "liveness"}),
                       .communicator = communicators_[i].get()});
    }
    TrainingOptions options = training.options(nullptr);
    options.training_only = !evaluates;
    absl::StatusOr<ParallelSession> opened = ParallelSession::Create(training.net, ranks, options);
    REQUIRE_MESSAGE(opened.ok(), opened.status().ToString());
    session_ = std::make_unique<ParallelSession>(*std::move(opened));
  }

  ParallelSession& session() { return *session_; }
  void Train(int64_t first, int64_t end) {
    for (int64_t step = first; step < end; ++step) {
      const absl::StatusOr<float> loss =
          session_->TrainStep(training_.PartOf(step, 0, training_.all_images()));
      REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    }
  }
  void Save(const std::string& path) {
    const absl::Status saved = session_->Save(path);
    REQUIRE_MESSAGE(saved.ok(), saved.ToString());
  }
  void Load(const std::string& path) {
    const absl::Status loaded = session_->Load(path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
  }

 private:
  const RankTraining training_;
  LocalRanks group_;
  std::vector<std::unique_ptr<CpuDevice>> devices_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::unique_ptr<ParallelSession> session_;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  REQUIRE(!bytes.empty());
  return bytes;
}

TEST_CASE("a checkpoint of four ranks is that without shards, and resumes on any ranks") {
  for (const bool half : {false, true}) {
    CAPTURE(half);
    const ScratchDirectory scratch;
    const std::string middle = scratch.File("middle"), end = scratch.File("end"),
                      resumed = scratch.File("resumed");
    const auto training_of = [half](std::vector<int64_t> split) {
      return half ? HalfTraining(std::move(split))
                  : RandomTraining(4, std::move(split), {.layout = Layout::kChannelsLast});
    };
    // From `middle` on, with and without shards.
    const auto both = [&](const std::vector<int64_t>& split, const auto& check) {
      for (const bool is_sharded : {true, false}) {
        RankTraining training = training_of(split);
        training.shard_optimizer = is_sharded;
        ShardedRanks ranks(training);
        ranks.Load(middle);
        ranks.Train(4, 8);
        ranks.Save(is_sharded ? resumed : end);
        if (is_sharded) check();
      }
      CHECK(ReadFile(resumed) == ReadFile(end));
    };
    ShardedRanks four(WithShards(training_of({2, 2, 2, 2}))), without(training_of({2, 2, 2, 2}));
    four.Train(0, 4);
    four.Save(middle);
    without.Train(0, 4);
    without.Save(end);
    CHECK(ReadFile(middle) == ReadFile(end));
    four.Train(4, 8);
    four.Save(end);
    both({2, 2, 2, 2}, [&] { CHECK(ReadFile(resumed) == ReadFile(end)); });
    both({4, 4}, [] {});
    both({8}, [] {});
  }
}

TEST_CASE("a checkpoint that rank 0 cannot write is an error of all ranks, which go on") {
  ShardedRanks ranks(WithShards(RandomTraining(4, {2, 2})));
  ranks.Train(0, 1);
  const absl::Status saved = ranks.session().Save("/no/such/folder/state.safetensors");
  CHECK(!saved.ok());
  CHECK(saved.message().find("rank 0: ") == 0);
  ranks.Train(1, 3);
}

TEST_CASE("evaluation wants gathered parameters, and gives what it gives without shards") {
  const RankTraining training = HalfTraining({3, 2});
  ShardedRanks sharded(WithShards(training), /*evaluates=*/true), without(training, true);
  const Batch batch = training.PartOf(50, 0, 5), small = training.PartOf(50, 0, 2);
  for (int64_t step = 0; step < 3; ++step) {
    sharded.Train(step, step + 1);
    without.Train(step, step + 1);
    if (step == 0) {
      const absl::Status early = sharded.session().rank(1).Evaluate(small).status();
      CHECK(absl::IsFailedPrecondition(early));
      CHECK(early.message().find("Gather()") != std::string::npos);
    }
    for (const Batch& images : {batch, small}) {
      const absl::StatusOr<StepResult> a = sharded.session().Evaluate(images);
      const absl::StatusOr<StepResult> b = without.session().Evaluate(images);
      REQUIRE(a.ok());
      REQUIRE(b.ok());
      CHECK(a->loss == b->loss);
      CHECK(a->correct == b->correct);
    }
    const absl::StatusOr<Prediction> first = sharded.session().rank(0).Predict(small.images);
    const absl::StatusOr<Prediction> second = sharded.session().rank(1).Predict(small.images);
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    CHECK(first->probabilities == second->probabilities);
  }
}

int64_t BytesOf(const Plan& plan, const std::function<bool(const PlanTensor&)>& counts) {
  int64_t bytes = 0;
  for (const PlanTensor& tensor : plan.tensors) {
    if (counts(tensor)) bytes += (tensor.bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  }
  return bytes;
}

TEST_CASE("each rank's peak is lower by the masters and momenta that it does not keep") {
  const RankTraining training = HalfTraining({2, 2, 2, 2});
  ShardedRanks sharded(WithShards(training)), without(training);
  sharded.Train(0, 2);
  without.Train(0, 2);
  const auto of_optimizer = [](const PlanTensor& tensor) {
    return tensor.role == Role::kMaster || tensor.role == Role::kOptimizer;
  };
  int64_t exact = 0;
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const Session& own = sharded.session().rank(rank);
    const Session& other = without.session().rank(rank);
    CHECK(own.memory().measured_peak_bytes == own.memory().predicted_peak_bytes);
    CHECK(own.is_sharded());
    CHECK(!other.is_sharded());
    const int64_t saved = BytesOf(other.plan(), of_optimizer) - BytesOf(own.plan(), of_optimizer);
    CHECK(other.plan().peak_bytes - own.plan().peak_bytes == saved);
    CHECK(saved > BytesOf(other.plan(), of_optimizer) / 2);
    for (const PlanTensor& tensor : own.plan().tensors)
      exact += of_optimizer(tensor) * tensor.bytes;
  }
  for (const PlanTensor& tensor : without.session().rank(0).plan().tensors)
    exact -= of_optimizer(tensor) * tensor.bytes;
  CHECK(exact == 0);
}

TEST_CASE("a graph without some layers keeps their parameters of the last step on all ranks") {
  const auto train = [](bool sharded) {
    LocalRanks group(2);
    std::vector<Trained> trained(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const std::unique_ptr<CpuDevice> device = OpenCpu();
        const auto communicator = group.Join(rank, *device);
        TrainingOptions options;
        options.communicator = communicator.get();
        options.shard_optimizer = sharded;
        Session session = MakeSession(*device, {.policy = "liveness"}, options);
        for (const bool with_block : {true, false, true}) {
          REQUIRE(session.SetTrainingGraph(SmallNet(Layout::kChannelsFirst, with_block)).ok());
          Train(session, 2);
        }
        REQUIRE(session.SetTrainingGraph(SmallNet(Layout::kChannelsFirst, false)).ok());
        Train(session, 1);
        REQUIRE(session.Gather().ok());
        const Batch batch = MakeBatch(3);
        Trained& own = trained[static_cast<size_t>(rank)];
        own.push_back({session.Evaluate(batch)->loss});
        for (const char* name : {"conv1.weight", "conv2.weight", "conv2.weight.momentum"})
          own.push_back(*session.Values(name));
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(AreSame(trained[0], trained[1]));
    return trained[0];
  };
  CHECK(AreSame(train(true), train(false)));
}

TEST_CASE("the flag has to be the same on all ranks") {
  LocalRanks group(2);
  std::vector<absl::Status> created(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<CpuDevice> device = OpenCpu();
      const auto communicator = group.Join(rank, *device);
      TrainingOptions options;
      options.communicator = communicator.get();
      options.shard_optimizer = rank == 1;
      created[static_cast<size_t>(rank)] = CreateSession(SmallNet(), *device, {}, options).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(created[0].message() ==
        "rank 1 and rank 0 differ in their sharding of the optimizer: on and off");
  CHECK(created[1].message() == created[0].message());
}

TEST_CASE("one rank has nothing to shard") {
  const RankTraining training = RandomTraining(5, {4});
  CHECK(AreSame(TrainAlone(WithShards(training)), TrainAlone(training)));
}

}  // namespace
}  // namespace neap::testing
