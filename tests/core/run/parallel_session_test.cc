// Several CPUs of one process, each a rank, by one session.
#include "neap/core/run/parallel_session.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "neap/layers/collectives/local_ranks.h"
#include "neap/memory/planner.h"
#include "tests/rank_training.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::testing {
namespace {

// Devices, communicators and a session of ranks with these parts of a batch.
class Ranks {
 public:
  explicit Ranks(const std::vector<int64_t>& split)
      : group_(static_cast<int>(split.size()), std::chrono::milliseconds(500)) {
    for (size_t i = 0; i < split.size(); ++i) {
      devices_.push_back(OpenCpu());
      communicators_.push_back(group_.Join(static_cast<int>(i), *devices_[i]));
      ranks.push_back({.images = split[i],
                       .device = devices_[i].get(),
                       .planner = PlannerFor({.policy = "liveness"}),
                       .communicator = communicators_[i].get()});
    }
  }
  absl::StatusOr<ParallelSession> Open(const RankTraining& training) const {
    return ParallelSession::Create(training.net, ranks, training.options(nullptr));
  }

  std::vector<ParallelSession::Rank> ranks;

 private:
  LocalRanks group_;
  std::vector<std::unique_ptr<CpuDevice>> devices_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

Batch WholeBatch(const RankTraining& training, int64_t step) {
  return training.PartOf(step, 0, training.all_images());
}

TEST_CASE("ranks train on images that are borrowed from the host, not from one device") {
  const RankTraining training = RandomRankTraining(5, {2, 2});
  const Ranks ranks(training.split);
  absl::StatusOr<ParallelSession> owning = ranks.Open(training);
  REQUIRE_MESSAGE(owning.ok(), owning.status().ToString());
  const Batch whole = WholeBatch(training, 0);
  const absl::StatusOr<float> expected = owning->TrainStep(whole);
  const Ranks others(training.split);
  absl::StatusOr<ParallelSession> session = others.Open(training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  Batch borrowed = whole;
  borrowed.images.clear();
  borrowed.borrowed = whole.images;
  borrowed.on_device = true;
  CHECK(session->Begin(borrowed).message() ==
        "images in the memory of a device are for the session of one device");
  borrowed.on_device = false;
  CHECK(session->TrainStep(borrowed).value() == expected.value());
}

TEST_CASE("a parallel session trains what ranks train for themselves") {
  const RankTraining training = RandomRankTraining(5, {2, 2});
  const Trained expected = TrainOnThreads(training, {{.policy = "liveness"}})[0];
  const Ranks ranks(training.split);
  absl::StatusOr<ParallelSession> session = ranks.Open(training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  CHECK(session->ranks() == 2);
  CHECK(session->batch() == 4);
  std::vector<float> losses;
  for (int64_t step = 0; step < training.steps; ++step) {
    const absl::StatusOr<float> loss = session->TrainStep(WholeBatch(training, step));
    REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    losses.push_back(*loss);
  }
  CHECK(losses == expected[0]);
  CheckSameState(session->rank(0), session->rank(1));
}

TEST_CASE("it evaluates, saves and loads as one session does") {
  RankTraining training = {
      .net = [](int64_t) { return SmallNet(); }, .split = {8, 8}, .image_values = 3 * 8 * 8};
  const ScratchDirectory scratch;
  const std::string path = scratch.File("state.safetensors");
  const Ranks ranks(training.split);
  TrainingOptions options = training.options(nullptr);
  options.training_only = false;
  absl::StatusOr<ParallelSession> session =
      ParallelSession::Create(training.net, ranks.ranks, options);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  REQUIRE(session->TrainStep(WholeBatch(training, 0)).ok());
  REQUIRE(session->Save(path).ok());

  const std::unique_ptr<CpuDevice> device = OpenCpu();
  Session alone = MakeSession(*device, {.policy = "liveness"});
  REQUIRE(alone.Load(path).ok());
  for (const int64_t images : {3, 8, 11}) {
    CAPTURE(images);
    const auto part_of = [&](int64_t begin, int64_t count) {
      Batch part = training.PartOf(1, begin, count);
      if (begin == 0) part.labels[1] = kNoLabel;
      return part;
    };
    const absl::StatusOr<StepResult> whole = session->Evaluate(part_of(0, images));
    REQUIRE_MESSAGE(whole.ok(), whole.status().ToString());
    const int64_t first = std::min<int64_t>(images, 8);
    const StepResult head = *alone.Evaluate(part_of(0, first));
    int64_t correct = head.correct;
    double loss = head.loss * static_cast<double>(first - 1);
    if (images > 8) {
      const StepResult tail = *alone.Evaluate(part_of(8, images - 8));
      correct += tail.correct;
      loss += tail.loss * static_cast<double>(images - 8);
    }
    CHECK(whole->correct == correct);
    CHECK(whole->labels == images - 1);
    CHECK(whole->loss == doctest::Approx(loss / static_cast<double>(images - 1)));
  }
  REQUIRE(session->TrainStep(WholeBatch(training, 1)).ok());
  REQUIRE(session->Load(path).ok());
  for (const char* const name : {"conv1.weight", "conv1.weight.momentum", "bn1.running_var"})
    CHECK(*session->rank(1).Values(name) == *alone.Values(name));
}

TEST_CASE("another learning rate holds on all ranks, and one that is no rate on none") {
  const RankTraining training = RandomRankTraining(5, {2, 2});
  const Ranks ranks(training.split), others(training.split);
  ParallelSession session = ranks.Open(training).value();
  const LearningRate rate = {.base = 0.5F};
  REQUIRE(session.SetLearningRate(rate).ok());
  CHECK(session.SetLearningRate({.base = -1}).code() == absl::StatusCode::kInvalidArgument);
  CHECK(session.learning_rate() == rate);
  TrainingOptions options = training.options(nullptr);
  options.learning_rate = rate;
  ParallelSession steady = ParallelSession::Create(training.net, others.ranks, options).value();
  for (int step = 0; step < 2; ++step)
    CHECK(*session.TrainStep(WholeBatch(training, step)) ==
          *steady.TrainStep(WholeBatch(training, step)));
  CheckSameState(session.rank(1), steady.rank(1));
}

TEST_CASE("an error names the rank, and what cannot be divided is refused") {
  const RankTraining training = RandomRankTraining(5, {2, 2});
  const Ranks ranks(training.split);
  absl::StatusOr<ParallelSession> session = ranks.Open(training);
  REQUIRE(session.ok());
  CHECK(session->Begin(training.PartOf(0, 0, 3)).message() ==
        "a batch of 3 images, but the ranks train 4");
  CHECK(session->Evaluate(training.PartOf(0, 0, 5)).status().message() ==
        "a batch of 5 images, but the ranks have room for 4");
  Batch mislabelled = WholeBatch(training, 0);
  mislabelled.labels[3] = 99;
  const std::string message(session->Begin(mislabelled).message());
  CHECK(message.find("rank 1: ") == 0);
  CHECK(message.find("99") != std::string::npos);

  Ranks few(training.split);
  few.ranks[1].planner = PlannerFor({.budget_bytes = 1000, .policy = "liveness"});
  CHECK(std::string(few.Open(training).status().message()).find("rank 1: a budget of 1000") == 0);
  Ranks swapped(training.split);
  std::swap(swapped.ranks[0].communicator, swapped.ranks[1].communicator);
  CHECK(swapped.Open(training).status().message() ==
        "rank 0 of 2 has the communicator of rank 1 of 2");
  CHECK(ParallelSession::Create(training.net, {}).status().message() ==
        "a parallel session needs ranks");
}

}  // namespace
}  // namespace neap::testing
