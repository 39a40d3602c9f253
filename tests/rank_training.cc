#include "tests/rank_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "neap/core/base/philox.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/shards.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "tests/random_graph.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

constexpr float kMomentum = 0.9F, kWeightDecay = 0.01F, kLearningRate = 0.05F;
constexpr uint64_t kSeed = 7;

using Values = std::vector<float>;
using State = std::map<std::string, Values>;  // of persistent tensors, by name

Session Open(const Graph& graph, Device& device, const PlannerOptions& planning,
             const TrainingOptions& options) {
  absl::StatusOr<Session> session = CreateSession(graph, device, planning, options);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

// The persistent tensors of the network, of which a rank's plan may lack some.
State StateOf(Session& session, const Program& alone) {
  State state;
  for (const Tensor& tensor : alone.tensors) {
    if (IsPersistent(tensor.role)) state[tensor.name] = *session.Values(tensor.name);
  }
  return state;
}

bool IsMomentum(const std::string& name) { return name.ends_with(".momentum"); }

// One iteration of the ranks, by one ordinary session for each.
class ReferenceStep {
 public:
  explicit ReferenceStep(const RankTraining& training) : training_(training), device_(OpenCpu()) {
    const Graph graph = training.net(training.split[0]);
    program_ = *BuildProgram(graph, {.optimizer = {.momentum = kMomentum}});
    TrainingOptions options = {.optimizer = {.momentum = kMomentum}, .learning_rate = {.base = 0}};
    options.seed = kSeed;
    session_ = std::make_unique<Session>(Open(graph, *device_, {.policy = "keep-all"}, options));
    state_ = StateOf(*session_, program_);
  }

  // Returns the sum of the losses, each a mean over the ranks.
  float Take(int64_t step) {
    std::vector<State> of_ranks;
    std::vector<LossResult> losses;
    const float weight = 1.0F / static_cast<float>(training_.split.size());
    int64_t first = 0;
    for (const int64_t images : training_.split) {
      Load(step);
      REQUIRE(session_->Begin(training_.PartOf(step, first, images)).ok());
      const absl::StatusOr<StepResult> result = session_->Finish();
      REQUIRE_MESSAGE(result.ok(), result.status().ToString());
      if (losses.empty()) {
        losses = result->losses;
        for (LossResult& loss : losses) loss.loss *= weight;
      } else {
        for (size_t i = 0; i < losses.size(); ++i)
          losses[i].loss += result->losses[i].loss * weight;
      }
      of_ranks.push_back(StateOf(*session_, program_));
      first += images;
    }
    for (auto& [name, values] : state_) {
      if (IsMomentum(name)) {
        Update(Mean(of_ranks, name), state_.at(name.substr(0, name.size() - 9)), values);
      } else if (!state_.contains(name + ".momentum")) {
        values = Mean(of_ranks, name);
      }
    }
    float sum = 0;
    for (const LossResult& loss : losses) sum += loss.weight * loss.loss;
    return sum;
  }

  const State& state() const { return state_; }

 private:
  // With momenta of 0, so that a step leaves gradients there.
  void Load(int64_t step) {
    const std::string path = scratch_.File("state.safetensors");
    const auto read = [this](const Tensor& tensor) -> absl::StatusOr<Values> {
      const Values& values = state_.at(tensor.name);
      return IsMomentum(tensor.name) ? Values(values.size()) : values;
    };
    const absl::Status saved = SaveCheckpoint(path, program_, CheckpointContents::kEverything,
                                              {.step = step, .seed = kSeed}, read);
    REQUIRE_MESSAGE(saved.ok(), saved.ToString());
    const absl::Status loaded = session_->Load(path);
    REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
  }

  static Values Mean(const std::vector<State>& of_ranks, const std::string& name) {
    const float weight = 1.0F / static_cast<float>(of_ranks.size());
    Values mean;
    for (const float value : of_ranks[0].at(name)) mean.push_back(value * weight);
    for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
      const Values& values = of_ranks[rank].at(name);
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += values[i] * weight;
    }
    return mean;
  }

  static void Update(const Values& gradient, Values& param, Values& momentum) {
    for (size_t i = 0; i < param.size(); ++i) {
      float step = gradient[i] + kWeightDecay * param[i];
      step += kMomentum * momentum[i];
      momentum[i] = step;
      param[i] -= kLearningRate * step;
    }
  }

  const RankTraining& training_;
  const std::unique_ptr<CpuDevice> device_;
  ScratchDirectory scratch_;
  Program program_;
  std::unique_ptr<Session> session_;
  State state_;
};

Trained InOrder(std::vector<float> losses, const State& state) {
  Trained trained = {std::move(losses)};
  for (const auto& [name, values] : state) {
    if (!name.ends_with(".metrics")) trained.push_back(values);
  }
  return trained;
}

Trained Run(const RankTraining& training, Session& session, int64_t first, int64_t images) {
  std::vector<float> losses;
  for (int64_t step = 0; step < training.steps; ++step) {
    const absl::StatusOr<float> loss = session.TrainStep(training.PartOf(step, first, images));
    REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    losses.push_back(*loss);
    if (!training.evaluates) continue;
    if (session.is_sharded()) REQUIRE(session.Gather().ok());
    const absl::StatusOr<StepResult> result =
        session.Evaluate(training.PartOf(step, first, images));
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  }
  const Program alone = *BuildProgram(training.net(images), {.optimizer = training.optimizer});
  return InOrder(std::move(losses), StateOf(session, alone));
}

}  // namespace

int64_t RankTraining::all_images() const {
  return std::accumulate(split.begin(), split.end(), int64_t{0});
}

TrainingOptions RankTraining::options(Communicator* communicator) const {
  TrainingOptions options = {.optimizer = optimizer, .learning_rate = {.base = kLearningRate}};
  options.seed = kSeed;
  options.training_only = !evaluates;
  options.communicator = communicator;
  options.sync_batch_norm = sync_batch_norm;
  options.shard_optimizer = shard_optimizer;
  return options;
}

Batch RankTraining::PartOf(int64_t step, int64_t first, int64_t count) const {
  Batch batch = {.images = {}, .labels = {}, .size = count};
  for (int64_t image = first; image < first + count; ++image) {
    batch.labels.push_back(static_cast<int32_t>(image + step) % classes);
    for (int64_t i = 0; i < image_values; ++i) {
      const PhiloxBlock random = Philox({.key = static_cast<uint64_t>(step),
                                         .stream = static_cast<uint64_t>(image),
                                         .position = static_cast<uint64_t>(i)});
      batch.images.push_back(2 * ToUnitFloat(random[0]) - 1);
    }
  }
  return batch;
}

RankTraining RandomRankTraining(uint32_t seed, std::vector<int64_t> split) {
  const auto net = [seed](int64_t batch) {
    return RandomGraph(seed, {.batch = batch,
                              .dropout = false,
                              .image_norms = seed % 3 == 2,
                              .auxiliary = seed % 3 == 1,
                              .shares = seed % 4 == 1});
  };
  return {.net = net,
          .split = std::move(split),
          .steps = 3,
          .image_values = 3 * 8 * 8,
          .bucket_bytes = seed % 3 == 0 ? kBucketBytes : int64_t{200} * (seed % 3)};
}

PlannerOptions TightPolicy(const RankTraining& training, size_t n) {
  return TightPolicy(training, n, *OpenCpu(), 0);
}

PlannerOptions TightPolicy(const RankTraining& training, size_t n, Device& device, size_t rank) {
  const RankShare share = {.rank = static_cast<int>(rank),
                           .ranks = static_cast<int>(training.split.size()),
                           .first_image = 0,
                           .all_images = training.all_images()};
  const int in_flight = static_cast<int>(n % 3);
  const Program program = *Lower(training.net(training.split[rank]),
                                 {.optimizer = training.optimizer,
                                  .share = share,
                                  .sync_batch_norm = training.sync_batch_norm,
                                  .shard = ShardOf(share, training.shard_optimizer),
                                  .bucket_bytes = training.bucket_bytes,
                                  .buckets_in_flight = in_flight},
                                 device.description());
  const std::vector<Policy>& policies = Policies();
  PlannerOptions options = {.policy = std::string(policies[n % policies.size()].name),
                            .bucket_bytes = training.bucket_bytes,
                            .buckets_in_flight = in_flight,
                            .strict = true};
  const absl::StatusOr<int64_t> minimum =
      MinimumBudget(program, options, device.description(), device.backend());
  REQUIRE_MESSAGE(minimum.ok(), minimum.status().ToString());
  options.budget_bytes = *minimum + *minimum / 16;
  return options;
}

Trained TrainRank(const RankTraining& training, Device& device, const PlannerOptions& planning,
                  Communicator& communicator) {
  const auto rank = static_cast<size_t>(communicator.rank());
  const int64_t images = training.split[rank];
  const int64_t first = std::accumulate(training.split.begin(),
                                        training.split.begin() + communicator.rank(), int64_t{0});
  Session session = Open(training.net(images), device, planning, training.options(&communicator));
  const Trained trained = Run(training, session, first, images);
  CHECK(session.memory().measured_peak_bytes == session.memory().predicted_peak_bytes);
  return trained;
}

std::vector<Trained> TrainOnThreads(const RankTraining& training,
                                    const std::vector<PlannerOptions>& planning) {
  const size_t ranks = training.split.size();
  LocalRanks group(static_cast<int>(ranks));
  std::vector<Trained> trained(ranks);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<CpuDevice> device = OpenCpu();
      const auto communicator = group.Join(static_cast<int>(rank), *device);
      trained[rank] = TrainRank(training, *device, planning[rank % planning.size()], *communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return trained;
}

Trained TrainAlone(const RankTraining& training) {
  const std::unique_ptr<CpuDevice> device = OpenCpu();
  Session session = Open(training.net(training.all_images()), *device, {.policy = "keep-all"},
                         training.options(nullptr));
  return Run(training, session, 0, training.all_images());
}

Trained Reference(const RankTraining& training) {
  ReferenceStep reference(training);
  std::vector<float> losses;
  for (int64_t step = 0; step < training.steps; ++step) losses.push_back(reference.Take(step));
  return InOrder(std::move(losses), reference.state());
}

bool AreClose(const Trained& a, const Trained& b, float tolerance, float least_scale) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Values& x, const Values& y) {
    float largest = least_scale;
    for (const float value : y) largest = std::max(largest, std::abs(value));
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](float p, float q) { return std::abs(p - q) <= tolerance * largest; });
  });
}

}  // namespace neap::testing
