// The calls of a session whose network has several feeds, losses and outputs: what they take, what
// they refuse by name, and what is saved.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/program/feeds.h"
#include "neap/core/run/session.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/target_loss.h"
#include "neap/memory/create_session.h"
#include "tests/core/run/two_towers.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("evaluation takes fewer examples, and feeds without what they are compared with") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlainDescent);
  const TowerFeeds all = TowerFeedsFor(), two = TowerFeedsFor(2);
  const StepResult of_all = session.Evaluate(all.feeds()).value();
  const StepResult of_two = session.Evaluate(two.feeds()).value();
  const NamedTensor& years = OutputCalled(of_two, "years");
  CHECK(years.shape == Shape{2, 1, 1, 1});
  const std::vector<float>& expected = OutputCalled(of_all, "years").values;
  CHECK(years.values == std::vector<float>(expected.begin(), expected.begin() + 2));
  for (const LossResult& loss : of_two.losses) CHECK(loss.labels == 2);
  // The mean over two is that of a network whose batch is two.
  Session small = Opened(TwoTowers({}, 2), *device, {}, kPlainDescent);
  CHECK(of_two.loss == doctest::Approx(small.Evaluate(two.feeds())->loss));

  Feeds unlabelled = all.feeds();
  unlabelled.resize(2);
  const StepResult of_unlabelled = session.Evaluate(unlabelled).value();
  CHECK(of_unlabelled.loss == 0);
  CHECK(OutputCalled(of_unlabelled, "years").values == expected);
}

TEST_CASE("a network of outputs alone is evaluated, and not trained") {
  const auto device = OpenCpu();
  Graph net({.batch = 2});
  net.Input("image", {3, 1, 1});
  net.Output(net.Add("a", FullyConnected{.out_features = 5}, {"image"}));
  CHECK_FALSE(CreateSession(net, *device, {}, {}).ok());
  Session session = Opened(net, *device, {}, {.inference_only = true});
  const std::vector<float> image(6, 1.0F);
  const StepResult result = session.Evaluate({{.name = "image", .floats = image}}).value();
  CHECK(result.losses.empty());
  CHECK(result.outputs.at(0).shape == Shape{2, 5, 1, 1});
  CHECK(MessageOf(session.Predict(image).status()).find("give them by name") != std::string::npos);
}

TEST_CASE("a loss against a feed that the network reads needs a whole batch") {
  const auto device = OpenCpu();
  Graph net({.name = "encoder", .batch = 2});
  net.Input("image", {3, 1, 1});
  net.Loss("loss", MeanSquaredError{},
           {net.Add("a", FullyConnected{.out_features = 3}, {"image"}), "image"});
  Session session = Opened(net, *device);
  const std::vector<float> image = {1, 2, 3, 4, 5, 6}, half = {1, 2, 3};
  CHECK(session.Step({{.name = "image", .floats = image}}).ok());
  CHECK(session.Evaluate({{.name = "image", .floats = image}}).ok());
  CHECK(MessageOf(session.Evaluate({{.name = "image", .floats = half}}).status()) ==
        "there are 1 examples for a batch of 2, but loss 'loss' is a mean over all of the batch, "
        "because no feed is its target alone");
}

TEST_CASE("feeds that do not fit are refused by name") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device);
  const TowerFeeds given = TowerFeedsFor();
  const auto error_of = [&](size_t index, const FeedValue& value) {
    Feeds feeds = given.feeds();
    feeds[index] = value;
    return MessageOf(session.Step(feeds).status());
  };
  const std::vector<float> floats(12, 0.0F);
  CHECK(error_of(1, {.name = "colour", .floats = floats}) ==
        "the network has no feed 'colour'; it has: image, age, species, estimate");
  CHECK(error_of(1, {.name = "image", .floats = floats}) == "feed 'image' is given twice");
  CHECK(error_of(1, {.name = "age", .integers = given.species}) ==
        "feed 'age' takes floats, but integers are given");
  CHECK(error_of(2, {.name = "species", .floats = floats}) ==
        "feed 'species' takes integers, but floats are given");
  CHECK(error_of(1, {.name = "age", .floats = {floats.data(), 11}}) ==
        "feed 'age' has 11 values; it is 4x3x1x1 fp32 nchw, 3 for each example");
  CHECK(error_of(1, {.name = "age", .floats = {floats.data(), 9}}) ==
        "feed 'age' has values for 3 examples; the network's batch is 4");
  CHECK(error_of(1, {.name = "age"}) ==
        "feed 'age' has 0 values; it is 4x3x1x1 fp32 nchw, 3 for each example");
  Feeds missing = given.feeds();
  missing.pop_back();
  CHECK(MessageOf(session.Step(missing).status()) == "there are no values for feed 'estimate'");
  CHECK(MessageOf(session.TrainStep({.images = floats}).status()) ==
        "towers takes other feeds than images and labels: image (4x3x1x1 fp32 nchw), age (4x3x1x1 "
        "fp32 nchw), species (4 int32 nchw), estimate (4x1x1x1 fp32 nchw); give them by name");
  CHECK(session.Step(given.feeds()).ok());  // nothing has changed
}

TEST_CASE("labels that are no classes are refused, and nothing has changed") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlainDescent);
  TowerFeeds given = TowerFeedsFor();
  const std::vector<float> before = Stored(session, "a.weight");
  for (const int32_t label : {2, -100}) {
    given.species[1] = label;
    for (const absl::Status& refused :
         {session.Step(given.feeds()).status(), session.Evaluate(given.feeds()).status()})
      CHECK(MessageOf(refused).find("the batch labels image 1 with ") == 0);
  }
  CHECK(Stored(session, "a.weight") == before);
}

TEST_CASE("no step is made for a caller who has one in flight") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlainDescent);
  const TowerFeeds given = TowerFeedsFor();
  REQUIRE(session.Begin(given.feeds()).ok());
  CHECK(session.Step(given.feeds()).status().code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(session.Begin(given.feeds()).ok());
  const StepResult first = session.Finish().value(), second = session.Finish().value();
  Session one_by_one = Opened(TwoTowers(), *device, {}, kPlainDescent);
  for (const StepResult* result : {&first, &second}) {
    const StepResult expected = one_by_one.Step(given.feeds()).value();
    CHECK(result->loss == expected.loss);
    CHECK(result->outputs[0].values == expected.outputs[0].values);
  }
}

TEST_CASE("what is saved of a shared parameter is loaded by a network that shares it") {
  const auto device = OpenCpu();
  const ScratchDirectory scratch;
  Session session = Opened(TwoTowers(), *device);
  REQUIRE(session.Step(TowerFeedsFor().feeds()).ok());
  REQUIRE(session.Save(scratch.File("towers.safetensors")).ok());
  Session again = Opened(TwoTowers(), *device, {.policy = "superneurons"});
  REQUIRE(again.Load(scratch.File("towers.safetensors")).ok());
  CHECK(again.Step(TowerFeedsFor().feeds())->loss == session.Step(TowerFeedsFor().feeds())->loss);
  CheckSameState(session, again);
}

TEST_CASE("a part of the network trains what it has, with the same ports") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlainDescent);
  REQUIRE(session.SetTrainingGraph(TwoTowers({.estimates = false})).ok());
  const TowerFeeds given = TowerFeedsFor();
  Feeds feeds = given.feeds();
  const std::vector<float> unused = Stored(session, "years.weight");
  CHECK_FALSE(session.Step(feeds).ok());  // it has no feed "estimate"
  feeds.pop_back();
  const StepResult result = session.Step(feeds).value();
  CHECK(result.losses.size() == 1);
  CHECK(result.outputs.size() == 1);
  CHECK(Stored(session, "years.weight") == unused);
  REQUIRE(session.SetTrainingGraph(TwoTowers()).ok());
  CHECK(session.Step(given.feeds())->outputs.size() == 2);
}

TEST_CASE("a batch of images is a short form of feeds") {
  const auto device = OpenCpu();
  Session by_batch = MakeSession(*device, {}), by_feeds = MakeSession(*device, {});
  for (uint64_t step = 0; step < 3; ++step) {
    const Batch batch = MakeBatch(step);
    const float loss = by_batch.TrainStep(batch).value();
    const StepResult result = by_feeds
                                  .Step({{.name = "input", .floats = batch.images},
                                         {.name = "labels", .integers = batch.labels}})
                                  .value();
    CHECK(result.loss == loss);
    CHECK(result.losses.at(0).loss == loss);
  }
  CheckSameState(by_batch, by_feeds);
}

}  // namespace
}  // namespace neap
