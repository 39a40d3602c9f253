#include "apps/train/training_loop.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "apps/train/batch_source.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/program/program.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/memory/create_session.h"
#include "neap/nets/registry.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using apps::StepTimes;

// The times of steps that end at these seconds.
StepTimes EndingAt(const std::vector<double>& ends) {
  const StepTimes::Clock::time_point start;
  StepTimes times;
  times.Start(start);
  for (const double end : ends)
    times.Step(start + std::chrono::duration_cast<StepTimes::Clock::duration>(
                           std::chrono::duration<double>(end)));
  return times;
}

TEST_CASE("every step is measured once on a device that computes while a step begins") {
  //   begin 0, begin 1, finish 0, begin 2, finish 1, finish 2     a begin takes 2 s, a finish
  //   nothing
  for (const int steps : {1, 2, 3, 4, 5}) {
    CAPTURE(steps);
    std::vector<double> ends;
    for (int step = 0; step < steps; ++step) ends.push_back(2.0 * std::min(step + 2, steps));
    const StepTimes times = EndingAt(ends);
    CHECK(times.measured() == steps);
    CHECK(times.MeanSeconds() == doctest::Approx(2));
    CHECK(times.MedianSeconds() == doctest::Approx(2));
  }
}

TEST_CASE("the speed excludes the warm-up, unless there are no other steps") {
  std::vector<double> ends;
  for (int64_t step = 0; step < StepTimes::kWarmupSteps; ++step)
    ends.push_back(100 * static_cast<double>(step + 1));
  CHECK(EndingAt(ends).MeanSeconds() == doctest::Approx(100));
  for (const double more : {1, 2, 5}) ends.push_back(1000 + more);
  const StepTimes times = EndingAt(ends);
  CHECK(times.measured() == 3);
  CHECK(times.MeanSeconds() == doctest::Approx(5.0 / 3));
  CHECK(times.MedianSeconds() == doctest::Approx(1));
}

// One batch again and again; counts how often it was taken, which is when a step is begun. After
// `most` batches there is an error.
class CountedBatch final : public apps::BatchSource {
 public:
  explicit CountedBatch(Batch batch, int64_t most = 1000) : batch_(std::move(batch)), most_(most) {}
  absl::StatusOr<const Batch*> Next() override {
    if (taken_ == most_) return absl::DataLossError("3.jpg: the file ends here");
    ++taken_;
    return &batch_;
  }
  int64_t taken() const { return taken_; }

 private:
  Batch batch_;
  int64_t most_;
  int64_t taken_ = 0;
};

TEST_CASE("two steps are in flight, and none at the end of the warm-up") {
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  const Graph net = nets::Build("lenet", {.batch = 1, .image = 28}).value();
  Session session = CreateSession(net, *device, {}).value();
  CountedBatch batches({.images = std::vector<float>(28 * 28, 0.5F), .labels = {3}, .size = 1});
  std::vector<int64_t> begun;  // when each step was finished
  const auto on_step = [&](const StepResult&, const StepTimes&) {
    begun.push_back(batches.taken());
  };
  const int64_t last = StepTimes::kWarmupSteps + 3;
  REQUIRE(apps::Train(session, batches, {.last_step = last}, on_step).ok());
  std::vector<int64_t> expected;
  for (int64_t step = 1; step <= last; ++step)
    expected.push_back(step == StepTimes::kWarmupSteps || step == last ? step : step + 1);
  CHECK(begun == expected);
}

TEST_CASE("a batch that cannot be read ends training with a checkpoint of all steps before it") {
  const ScratchDirectory directory;
  const std::string path = directory.File("c");
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  const Graph net = nets::Build("lenet", {.batch = 1, .image = 28}).value();
  const Batch batch = {.images = std::vector<float>(28 * 28, 0.5F), .labels = {3}, .size = 1};
  for (const int64_t most : {0, 1, 4}) {
    CAPTURE(most);
    Session session = CreateSession(net, *device, {}).value();
    CountedBatch batches(batch, most);
    const auto end = apps::Train(session, batches, {.last_step = 9, .save = path},
                                 [](const StepResult&, const StepTimes&) {});
    REQUIRE(end.ok());
    CHECK(end->steps == most);
    CHECK(end->failure.message() == "3.jpg: the file ends here");
    CHECK(!end->interrupted);
    CHECK(std::filesystem::exists(path) == (most > 0));
    if (most > 0) CHECK(ReadTrainingPosition(path).value()->step == most);
  }
}

TEST_CASE("a training that diverges writes no checkpoint, and says which one is left") {
  const ScratchDirectory directory;
  const std::string path = directory.File("c");
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  const Graph net = nets::Build("lenet", {.batch = 1, .image = 28}).value();
  Session session = CreateSession(net, *device, {}).value();
  CountedBatch batches({.images = std::vector<float>(28 * 28, 1e30F), .labels = {3}, .size = 1});
  const auto end = apps::Train(session, batches, {.last_step = 9, .save = path},
                               [](const StepResult&, const StepTimes&) {});
  CHECK(absl::StrContains(end.status().message(), "training has diverged"));
  CHECK(absl::EndsWith(end.status().message(), "; no checkpoint was written before"));
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("a checkpoint is also written by the clock, and changes no step") {
  const ScratchDirectory directory;
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  const Graph net = nets::Build("lenet", {.batch = 1, .image = 28}).value();
  std::vector<std::vector<float>> losses;
  for (const auto after : {std::chrono::seconds(0), std::chrono::seconds(1000)}) {
    const std::string path = directory.File(std::to_string(after.count()));
    Session session = CreateSession(net, *device, {}).value();
    CountedBatch batches({.images = std::vector<float>(28 * 28, 0.5F), .labels = {3}, .size = 1});
    std::vector<float>& own = losses.emplace_back();
    const auto on_step = [&](const StepResult& result, const StepTimes&) {
      own.push_back(result.loss);
      CHECK(std::filesystem::exists(path) == (after.count() == 0 && result.step > 0));
    };
    REQUIRE(
        apps::Train(session, batches, {.last_step = 5, .save = path, .save_after = after}, on_step)
            .ok());
    CHECK(batches.taken() == 5);
  }
  CHECK(losses[0] == losses[1]);
}

// LeNet's weights, except that all classes but the last have biases of -1e6.
void WriteCertainWeights(const Graph& net, Session& session, const std::string& path) {
  const auto read = [&](const Tensor& tensor) -> absl::StatusOr<std::vector<float>> {
    absl::StatusOr<std::vector<float>> values = session.Values(tensor.name);
    if (values.ok() && tensor.name == "fc2.bias")
      std::fill(values->begin(), values->end() - 1, -1e6F);
    return values;
  };
  const Program program = BuildProgram(net, {}).value();
  REQUIRE(SaveCheckpoint(path, program, CheckpointContents::kWeights, {}, read).ok());
}

// The last class has probability 1, so the image's has 0: the loss is infinite, its gradient is
// not.
TEST_CASE("in fp16 an infinite loss with finite gradients ends training: no step was skipped") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("weights");
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  const Graph net = nets::Build("lenet", {.batch = 1, .image = 28, .dtype = DType::kFp16}).value();
  Session session = CreateSession(net, *device, {}).value();
  WriteCertainWeights(net, session, weights);
  REQUIRE(session.Load(weights).ok());
  CountedBatch batches({.images = std::vector<float>(28 * 28, 0.5F), .labels = {3}, .size = 1});
  std::vector<StepResult> results;
  const auto on_step = [&](const StepResult& result, const apps::StepTimes&) {
    results.push_back(result);
  };
  const absl::Status status = apps::Train(session, batches, {.last_step = 9}, on_step).status();
  CHECK(absl::IsFailedPrecondition(status));
  const std::string step = std::to_string(results.size() + 1);
  CHECK(status.message() == "the loss is infinite at step " + step +
                                ": training has diverged; a lower --lr or a --warmup may help");
  for (const StepResult& before : results) CHECK(before.skipped);  // a first scale is too large
}

}  // namespace
}  // namespace neap::testing
