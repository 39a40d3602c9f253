// A learning rate that changes while a session trains, and in its checkpoints.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>

#include "neap/core/run/session.h"
#include "neap/layers/collectives/local_ranks.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::testing {
namespace {

constexpr TrainingOptions kRateTraining = {.learning_rate = {.base = 0.0625F}};
constexpr LearningRate kHalf = {.base = 0.03125F};

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Replace(const std::string& text, const std::string& other, std::string& bytes) {
  REQUIRE(other.size() == text.size());
  REQUIRE(bytes.find(text) != std::string::npos);
  bytes.replace(bytes.find(text), text.size(), other);
}

// Trains 2 steps with kRateTraining and 2 with kHalf, in one schedule.
Session TrainedBySchedule(Device& device) {
  TrainingOptions training = kRateTraining;
  training.learning_rate.decay = LearningRate::Decay::kStep;
  training.learning_rate.period_steps = 2;
  training.learning_rate.factor = 0.5F;
  Session session = MakeSession(device, {}, training);
  Train(session, 4);
  return session;
}

TEST_CASE("a rate that is set between two steps trains what a schedule with that rate does") {
  const auto device = OpenCpu();
  Session expected = TrainedBySchedule(*device);
  Session session = MakeSession(*device, {}, kRateTraining);
  CHECK(session.learning_rate() == kRateTraining.learning_rate);
  Train(session, 2);
  REQUIRE(session.SetLearningRate(kHalf).ok());
  CHECK(session.learning_rate() == kHalf);
  Train(session, 2);
  CheckSameState(session, expected);
}

TEST_CASE("a step in flight keeps the rate with which it began") {
  const auto device = OpenCpu();
  Session expected = MakeSession(*device, {}, kRateTraining);
  Train(expected, 1);
  Session session = MakeSession(*device, {}, kRateTraining);
  REQUIRE(session.Begin(MakeBatch(0)).ok());
  REQUIRE(session.SetLearningRate(kHalf).ok());
  REQUIRE(session.Finish().ok());
  CheckSameState(session, expected);
}

TEST_CASE("a checkpoint goes on with the rate that was set, whatever that of the options is") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("checkpoint.safetensors");
  Session session = MakeSession(*device, {}, kRateTraining);
  Train(session, 2);
  REQUIRE(session.SetLearningRate(kHalf).ok());
  Train(session, 1);
  REQUIRE(session.Save(path).ok());
  Session resumed = MakeSession(*device, {}, {.learning_rate = {.base = 0.9F}});
  REQUIRE(resumed.Load(path).ok());
  CHECK(resumed.learning_rate() == kHalf);
  Train(resumed, 1);
  Session expected = TrainedBySchedule(*device);
  CheckSameState(resumed, expected);
}

TEST_CASE("a checkpoint without a rate returns to that of the options, and weights change none") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string checkpoint = directory.File("checkpoint.safetensors");
  const std::string weights = directory.File("weights.safetensors");
  Session session = MakeSession(*device, {}, kRateTraining);
  REQUIRE(session.Save(checkpoint).ok());
  REQUIRE(session.SetLearningRate(kHalf).ok());
  REQUIRE(session.SaveWeights(weights).ok());
  REQUIRE(session.Load(weights).ok());
  CHECK(session.learning_rate() == kHalf);
  REQUIRE(session.Load(checkpoint).ok());
  CHECK(session.learning_rate() == kRateTraining.learning_rate);
}

TEST_CASE("a rate that is refused changes nothing") {
  const auto device = OpenCpu();
  Session session = MakeSession(*device, {}, kRateTraining);
  CHECK(session.SetLearningRate({.base = std::numeric_limits<float>::quiet_NaN()}).message() ==
        "learning rate: base nan must be finite and not negative");
  CHECK(session.learning_rate() == kRateTraining.learning_rate);
}

TEST_CASE("a damaged rate in a checkpoint is refused, and the session left as it was") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  const std::string path = directory.File("checkpoint.safetensors");
  Session session = MakeSession(*device, {}, kRateTraining);
  REQUIRE(session.SetLearningRate(kHalf).ok());
  REQUIRE(session.Save(path).ok());
  std::string bytes = ReadBytes(path);
  Replace("decay 0", "decay 9", bytes);
  Replace("neap.header_crc32", "none.header_crc32", bytes);  // by a program that writes none
  std::ofstream(path, std::ios::binary) << bytes;
  Train(session, 1);
  const absl::Status status = session.Load(path);
  CHECK(absl::IsDataLoss(status));
  CHECK(std::string(status.message()).find("is not a learning rate") != std::string::npos);
  CHECK(session.step() == 1);
}

TEST_CASE("ranks that set different rates are told so") {
  const auto set = [](int rank, LocalRanks& group, float base) {
    const std::unique_ptr<CpuDevice> device = OpenCpu();
    const auto communicator = group.Join(rank, *device);
    TrainingOptions training = kRateTraining;
    training.communicator = communicator.get();
    Session session = MakeSession(*device, {}, training);
    const std::string message(session.SetLearningRate({.base = base}).message());
    CHECK((session.learning_rate() == kRateTraining.learning_rate) == !message.empty());
    return message;
  };
  for (const float base : {0.5F, 0.25F}) {
    LocalRanks group(2);
    std::string other;
    std::thread thread([&] { other = set(1, group, base); });
    const std::string own = set(0, group, 0.5F);
    thread.join();
    CHECK(own == other);
    CHECK(own.find(base == 0.5F ? "" : "rank 1 and rank 0 differ in their learning rate: ") == 0);
    CHECK(own.empty() == (base == 0.5F));
  }
}

}  // namespace
}  // namespace neap::testing
