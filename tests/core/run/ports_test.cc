// Networks of several feeds, losses and outputs, and of parameters that layers share.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/program/feeds.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr int64_t kBatch = 4;
constexpr TrainingOptions kPlain = {.optimizer = {.momentum = 0}, .learning_rate = {.base = 0.1F}};

// y = w2 * relu(w1 * image + w1 * age), of numbers, with w1 shared, a classifier, and two losses.
struct Given {
  std::vector<float> image, age, estimate;
  std::vector<int32_t> species;
  Feeds feeds() const {
    return {{.name = "image", .floats = image},
            {.name = "age", .floats = age},
            {.name = "species", .integers = species},
            {.name = "estimate", .floats = estimate}};
  }
};

Given GivenFor(int64_t examples = kBatch) {
  Given given;
  for (int64_t i = 0; i < examples; ++i) {
    const auto x = static_cast<float>(i);
    for (int64_t k = 0; k < 3; ++k) given.image.push_back(0.3F * x - 0.2F * static_cast<float>(k));
    for (int64_t k = 0; k < 3; ++k) given.age.push_back(0.1F * x + 0.4F * static_cast<float>(k));
    given.estimate.push_back(0.5F * x);
    given.species.push_back(static_cast<int32_t>(i % 2));
  }
  return given;
}

struct Options {
  bool shares = true;
  bool classifies = true, estimates = true;
  float weight = 0.25F;  // of the second loss
};

Graph TwoTowers(const Options& options = {}, int64_t batch = kBatch) {
  Graph net({.name = "towers", .batch = batch});
  net.Input("image", {3, 1, 1});
  net.Input("age", {3, 1, 1});
  net.Add("a", FullyConnected{.out_features = 5}, {"image"});
  net.Add("b", FullyConnected{.out_features = 5}, {"age"});
  net.Add("sum", Add{}, {"a", "b"});
  net.Add("hidden", Relu{}, {"sum"});
  if (options.shares) {
    net.Share("b.weight", "a.weight");
    net.Share("b.bias", "a.bias");
  }
  if (options.classifies) {
    net.Add("scores", FullyConnected{.out_features = 2}, {"hidden"});
    net.Input("species", {}, DType::kInt32);
    net.Loss("species_loss", SoftmaxCrossEntropy{}, {"scores", "species"});
    net.Output("scores");
  }
  if (options.estimates) {
    net.Add("years", FullyConnected{.out_features = 1}, {"hidden"});
    net.Input("estimate", {1, 1, 1}, DType::kFp32);
    net.Loss("age_loss", MeanSquaredError{.weight = options.weight}, {"years", "estimate"});
    net.Output("years");
  }
  return net;
}

const NamedTensor& OutputCalled(const StepResult& result, const std::string& name) {
  for (const NamedTensor& output : result.outputs) {
    if (output.name == name) return output;
  }
  FAIL("no output ", name);
  return result.outputs.front();
}

std::vector<float> Stored(Session& session, const std::string& name) {
  return session.Values(name).value();
}

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("the loss and the outputs are those of a computation in float64") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlain);
  const std::vector<float> w = Stored(session, "a.weight"), b = Stored(session, "a.bias");
  const std::vector<float> v = Stored(session, "years.weight");
  const std::vector<float> c = Stored(session, "years.bias");
  const std::vector<float> s = Stored(session, "scores.weight");
  const std::vector<float> d = Stored(session, "scores.bias");
  const Given given = GivenFor();
  const StepResult result = session.Step(given.feeds()).value();
  double squared = 0, entropy = 0;
  int64_t correct = 0;
  for (size_t i = 0; i < kBatch; ++i) {
    double years = c[0], scores[2] = {d[0], d[1]};
    for (size_t h = 0; h < 5; ++h) {
      double hidden = 2 * static_cast<double>(b[h]);
      for (size_t k = 0; k < 3; ++k) {
        hidden += static_cast<double>(w[h * 3 + k]) *
                  static_cast<double>(given.image[i * 3 + k] + given.age[i * 3 + k]);
      }
      hidden = std::max(hidden, 0.0);
      years += static_cast<double>(v[h]) * hidden;
      for (size_t class_of = 0; class_of < 2; ++class_of)
        scores[class_of] += static_cast<double>(s[class_of * 5 + h]) * hidden;
    }
    const auto label = static_cast<size_t>(given.species[i]);
    squared += std::pow(years - static_cast<double>(given.estimate[i]), 2) / kBatch;
    entropy += (std::log(std::exp(scores[0]) + std::exp(scores[1])) - scores[label]) / kBatch;
    correct += scores[label] > scores[1 - label] ? 1 : 0;
    CHECK(OutputCalled(result, "years").values[i] == doctest::Approx(years));
    for (size_t class_of : {0, 1}) {
      CHECK(OutputCalled(result, "scores").values[i * 2 + class_of] ==
            doctest::Approx(scores[class_of]));
    }
  }
  CHECK(OutputCalled(result, "scores").shape == Shape{kBatch, 2, 1, 1});
  REQUIRE(result.losses.size() == 2);
  for (const LossResult& loss : result.losses) {
    const bool is_age = loss.name == "age_loss";
    CHECK(loss.loss == doctest::Approx(is_age ? squared : entropy));
    CHECK(loss.weight == (is_age ? 0.25F : 1.0F));
    if (!is_age) CHECK(loss.correct == correct);
  }
  CHECK(result.loss == doctest::Approx(entropy + 0.25 * squared));
}

// A step of gradient descent, from which gradients follow.
std::vector<double> GradientOf(const Options& options, const std::string& param) {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(options), *device, {}, kPlain);
  NamedValues same;  // whatever the network's layers are
  const std::vector<NamedTensor> weights = session.Weights().value();
  for (const NamedTensor& tensor : weights) {
    std::vector<float> values(tensor.values.size());
    const bool is_tower = tensor.name.starts_with("a.") || tensor.name.starts_with("b.");
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.1F * std::sin(static_cast<float>(i) + (is_tower ? 0.0F : 1.0F));
    same[tensor.name] = std::move(values);
  }
  REQUIRE(session.LoadWeights(same).ok());
  Feeds feeds;
  const Given given = GivenFor();
  for (const FeedValue& value : given.feeds()) {
    const bool is_read = (value.name != "species" || options.classifies) &&
                         (value.name != "estimate" || options.estimates);
    if (is_read) feeds.push_back(value);
  }
  REQUIRE(session.Step(feeds).ok());
  const std::vector<float> after = Stored(session, param), &before = same.at(param);
  std::vector<double> gradient;
  for (size_t i = 0; i < after.size(); ++i)
    gradient.push_back((static_cast<double>(before[i]) - static_cast<double>(after[i])) / 0.1);
  return gradient;
}

TEST_CASE("the gradient of a shared parameter is the sum of those of its layers") {
  for (const std::string param : {"weight", "bias"}) {
    const std::vector<double> shared = GradientOf({}, "a." + param);
    const std::vector<double> a = GradientOf({.shares = false}, "a." + param);
    const std::vector<double> b = GradientOf({.shares = false}, "b." + param);
    for (size_t i = 0; i < shared.size(); ++i) CHECK(std::abs(shared[i] - a[i] - b[i]) < 1e-5);
  }
}

TEST_CASE("the gradient is that of the weighted sum of the losses") {
  const std::vector<double> both = GradientOf({.weight = 0.25F}, "a.weight");
  const std::vector<double> one = GradientOf({.estimates = false}, "a.weight");
  const std::vector<double> other = GradientOf({.classifies = false, .weight = 1}, "a.weight");
  for (size_t i = 0; i < both.size(); ++i)
    CHECK(std::abs(both[i] - one[i] - 0.25 * other[i]) < 1e-5);
}

TEST_CASE("a shared parameter is one tensor, in plans and files") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device);
  std::vector<std::string> names;
  const std::vector<NamedTensor> weights = session.Weights().value();
  for (const NamedTensor& tensor : weights) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"a.weight", "a.bias", "scores.weight", "scores.bias",
                                          "years.weight", "years.bias"});
  CHECK_FALSE(session.Values("b.weight").ok());
}

TEST_CASE("every policy trains to the same bits in its smallest budget") {
  const auto device = OpenCpu();
  const auto trained = [&](const PlannerOptions& planning, int64_t* minimum) {
    Session session = Opened(TwoTowers(), *device, planning);
    *minimum = session.planning().minimum_budget_bytes;
    Trained all(1);
    for (int step = 0; step < 3; ++step) {
      const StepResult result = session.Step(GivenFor().feeds()).value();
      for (const LossResult& loss : result.losses) all[0].push_back(loss.loss);
      for (const NamedTensor& output : result.outputs) all.push_back(output.values);
    }
    AppendState(all, session);
    return all;
  };
  int64_t minimum = 0;
  const Trained expected = trained({.policy = "keep-all"}, &minimum);
  for (const Policy& policy : Policies()) {
    CAPTURE(policy.name);
    PlannerOptions options = {.policy = std::string(policy.name)};
    CHECK(AreSame(trained(options, &minimum), expected));
    options.budget_bytes = minimum;
    CHECK(AreSame(trained(options, &minimum), expected));
  }
}

TEST_CASE("sub-batches train several losses, feeds and shared parameters as the whole batch does") {
  const auto device = OpenCpu();
  Session whole = Opened(TwoTowers(), *device, {}, kPlain);
  const Given given = GivenFor();
  const StepResult expected = whole.Step(given.feeds()).value();
  for (const int64_t sub_batches : {2, 3}) {
    CAPTURE(sub_batches);
    Session parts = Opened(TwoTowers(), *device, {.sub_batches = sub_batches}, kPlain);
    const StepResult result = parts.Step(given.feeds()).value();
    CHECK(result.loss == doctest::Approx(expected.loss));
    REQUIRE(result.outputs.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(result.losses[i].loss == doctest::Approx(expected.losses[i].loss));
      CHECK(result.losses[i].correct == expected.losses[i].correct);
      CHECK(result.outputs[i].values == expected.outputs[i].values);
    }
    const std::vector<float> a = Stored(whole, "a.weight"), b = Stored(parts, "a.weight");
    for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]));
  }
}

TEST_CASE("evaluation takes fewer examples, and feeds without what they are compared with") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlain);
  const Given all = GivenFor(), two = GivenFor(2);
  const StepResult of_all = session.Evaluate(all.feeds()).value();
  const StepResult of_two = session.Evaluate(two.feeds()).value();
  const NamedTensor& years = OutputCalled(of_two, "years");
  CHECK(years.shape == Shape{2, 1, 1, 1});
  const std::vector<float>& expected = OutputCalled(of_all, "years").values;
  CHECK(years.values == std::vector<float>(expected.begin(), expected.begin() + 2));
  for (const LossResult& loss : of_two.losses) CHECK(loss.labels == 2);
  // The mean over two is that of a network whose batch is two.
  Session small = Opened(TwoTowers({}, 2), *device, {}, kPlain);
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
  CHECK(ErrorOf(session.Predict(image).status()).find("give them by name") != std::string::npos);
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
  CHECK(ErrorOf(session.Evaluate({{.name = "image", .floats = half}}).status()) ==
        "there are 1 examples for a batch of 2, but loss 'loss' is a mean over all of the batch, "
        "because no feed is its target alone");
}

TEST_CASE("feeds that do not fit are refused by name") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device);
  const Given given = GivenFor();
  const auto error_of = [&](size_t index, const FeedValue& value) {
    Feeds feeds = given.feeds();
    feeds[index] = value;
    return ErrorOf(session.Step(feeds).status());
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
  CHECK(ErrorOf(session.Step(missing).status()) == "there are no values for feed 'estimate'");
  CHECK(ErrorOf(session.TrainStep({.images = floats}).status()) ==
        "towers takes other feeds than images and labels: image (4x3x1x1 fp32 nchw), age (4x3x1x1 "
        "fp32 nchw), species (4 int32 nchw), estimate (4x1x1x1 fp32 nchw); give them by name");
  CHECK(session.Step(given.feeds()).ok());  // nothing has changed
}

TEST_CASE("an output without a loss behind it is computed, and its layers do not learn") {
  const auto device = OpenCpu();
  Graph net = TwoTowers();
  net.Add("side", FullyConnected{.out_features = 3}, {"image"});
  net.Share("side.bias", "b.bias");  // no: another shape
  CHECK_FALSE(CreateSession(net, *device, {}, {}).ok());
  Graph sides = TwoTowers();
  sides.Add("side", FullyConnected{.out_features = 5}, {"image"});
  sides.Share("side.weight", "a.weight");
  sides.Output(sides.Add("squashed", Sigmoid{}, {"side"}));
  Session plain = Opened(TwoTowers(), *device, {}, kPlain);
  Session with_side = Opened(sides, *device, {}, kPlain);
  const std::vector<float> bias = Stored(with_side, "side.bias");
  for (int step = 0; step < 3; ++step) {
    const StepResult expected = plain.Step(GivenFor().feeds()).value();
    const StepResult result = with_side.Step(GivenFor().feeds()).value();
    CHECK(result.loss == expected.loss);
    CHECK(OutputCalled(result, "squashed").shape == Shape{kBatch, 5, 1, 1});
  }
  CHECK(Stored(with_side, "side.bias") == bias);
  CHECK(Stored(with_side, "a.weight") == Stored(plain, "a.weight"));
}

TEST_CASE("labels that are no classes are refused, and nothing has changed") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlain);
  Given given = GivenFor();
  const std::vector<float> before = Stored(session, "a.weight");
  for (const int32_t label : {2, -100}) {
    given.species[1] = label;
    for (const absl::Status& refused :
         {session.Step(given.feeds()).status(), session.Evaluate(given.feeds()).status()})
      CHECK(ErrorOf(refused).find("the batch labels image 1 with ") == 0);
  }
  CHECK(Stored(session, "a.weight") == before);
}

TEST_CASE("no step is made for a caller who has one in flight") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlain);
  const Given given = GivenFor();
  REQUIRE(session.Begin(given.feeds()).ok());
  CHECK(session.Step(given.feeds()).status().code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(session.Begin(given.feeds()).ok());
  const StepResult first = session.Finish().value(), second = session.Finish().value();
  Session one_by_one = Opened(TwoTowers(), *device, {}, kPlain);
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
  REQUIRE(session.Step(GivenFor().feeds()).ok());
  REQUIRE(session.Save(scratch.File("towers.safetensors")).ok());
  Session again = Opened(TwoTowers(), *device, {.policy = "superneurons"});
  REQUIRE(again.Load(scratch.File("towers.safetensors")).ok());
  CHECK(again.Step(GivenFor().feeds())->loss == session.Step(GivenFor().feeds())->loss);
  CheckSameState(session, again);
}

TEST_CASE("a part of the network trains what it has, with the same ports") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlain);
  REQUIRE(session.SetTrainingGraph(TwoTowers({.estimates = false})).ok());
  const Given given = GivenFor();
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
