// What networks of several feeds, losses and outputs, and of parameters that layers share, compute
// and learn.
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
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/core/run/two_towers.h"
#include "tests/small_training.h"

namespace neap {
namespace {

TEST_CASE("the loss and the outputs are those of a computation in float64") {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(), *device, {}, kPlainDescent);
  const std::vector<float> w = Stored(session, "a.weight"), b = Stored(session, "a.bias");
  const std::vector<float> v = Stored(session, "years.weight");
  const std::vector<float> c = Stored(session, "years.bias");
  const std::vector<float> s = Stored(session, "scores.weight");
  const std::vector<float> d = Stored(session, "scores.bias");
  const TowerFeeds given = TowerFeedsFor();
  const StepResult result = session.Step(given.feeds()).value();
  double squared = 0, entropy = 0;
  int64_t correct = 0;
  for (size_t i = 0; i < kTowerBatch; ++i) {
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
    squared += std::pow(years - static_cast<double>(given.estimate[i]), 2) / kTowerBatch;
    entropy += (std::log(std::exp(scores[0]) + std::exp(scores[1])) - scores[label]) / kTowerBatch;
    correct += scores[label] > scores[1 - label] ? 1 : 0;
    CHECK(OutputCalled(result, "years").values[i] == doctest::Approx(years));
    for (size_t class_of : {0, 1}) {
      CHECK(OutputCalled(result, "scores").values[i * 2 + class_of] ==
            doctest::Approx(scores[class_of]));
    }
  }
  CHECK(OutputCalled(result, "scores").shape == Shape{kTowerBatch, 2, 1, 1});
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
std::vector<double> GradientOf(const TowerOptions& options, const std::string& param) {
  const auto device = OpenCpu();
  Session session = Opened(TwoTowers(options), *device, {}, kPlainDescent);
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
  const TowerFeeds given = TowerFeedsFor();
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
      const StepResult result = session.Step(TowerFeedsFor().feeds()).value();
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
  Session whole = Opened(TwoTowers(), *device, {}, kPlainDescent);
  const TowerFeeds given = TowerFeedsFor();
  const StepResult expected = whole.Step(given.feeds()).value();
  for (const int64_t sub_batches : {2, 3}) {
    CAPTURE(sub_batches);
    Session parts = Opened(TwoTowers(), *device, {.sub_batches = sub_batches}, kPlainDescent);
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
  Session plain = Opened(TwoTowers(), *device, {}, kPlainDescent);
  Session with_side = Opened(sides, *device, {}, kPlainDescent);
  const std::vector<float> bias = Stored(with_side, "side.bias");
  for (int step = 0; step < 3; ++step) {
    const StepResult expected = plain.Step(TowerFeedsFor().feeds()).value();
    const StepResult result = with_side.Step(TowerFeedsFor().feeds()).value();
    CHECK(result.loss == expected.loss);
    CHECK(OutputCalled(result, "squashed").shape == Shape{kTowerBatch, 5, 1, 1});
  }
  CHECK(Stored(with_side, "side.bias") == bias);
  CHECK(Stored(with_side, "a.weight") == Stored(plain, "a.weight"));
}

}  // namespace
}  // namespace neap
