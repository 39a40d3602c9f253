#include "tests/layers/loss_checks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "neap/core/vision/batch.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

namespace neap::testing {
namespace {

using namespace operands;

// What a step of the loss computes, of which 0 is forward.
Values ResultsOf(Backend& backend, const DeviceAccess& access, const Layer& loss,
                 const std::vector<TensorSpec>& inputs, size_t step, const Values& given) {
  const LayerSpec spec = loss.Specify({.inputs = inputs}).value();
  const absl::StatusOr<Values> results = RunStep(
      backend, access,
      SignatureOf(spec.steps[step], {.layer = loss, .spec = spec, .inputs = inputs}), given);
  REQUIRE_MESSAGE(results.ok(), results.status().ToString());
  return *results;
}

// The mean loss and the number of correct labels of two images of three classes, for both of which
// class 2 has the largest output.
std::vector<double> Metrics(Backend& backend, const DeviceAccess& access, double first,
                            double second) {
  const std::vector<TensorSpec> inputs = {{.shape = {2, 3, 1, 1}},
                                          {.shape = {2}, .dtype = DType::kInt32}};
  const Values given = {{X(0), {1, 2, 3, 1, 2, 3}}, {X(1), {first, second}}};
  return ResultsOf(backend, access, SoftmaxCrossEntropy{}, inputs, 0, given).at(State(0));
}

}  // namespace

void CheckLabelsOutsideClasses(Backend& backend, const DeviceAccess& access) {
  for (double label : {-2.0, 3.0}) {
    const std::vector<double> metrics = Metrics(backend, access, 2, label);
    CHECK(std::isnan(metrics[0]));
    CHECK(metrics[1] == 1);
  }
}

void CheckImagesWithoutLabels(Backend& backend, const DeviceAccess& access) {
  const std::vector<double> one = Metrics(backend, access, 2, kNoLabel);
  CHECK(one[0] == doctest::Approx(Metrics(backend, access, 2, 2)[0] / 2));  // the mean over both
  CHECK(one[1] == 1);
  CHECK(Metrics(backend, access, kNoLabel, kNoLabel) == std::vector<double>{0, 0});
}

void CheckElementsWithoutTargets(Backend& backend, const DeviceAccess& access) {
  constexpr double kNone = kNoTarget;
  for (const Shape& shape : {Shape{3, 2, 1, 1}, Shape{1, 2, 1, 3}}) {
    const std::vector<TensorSpec> inputs(2, {.shape = shape});
    for (const Layer& loss : std::vector<Layer>{MeanSquaredError{}, BinaryCrossEntropy{}}) {
      const auto run = [&](size_t step, const Values& given) {
        return ResultsOf(backend, access, loss, inputs, step, given);
      };
      const std::vector<double> x = {1000, -1000, 0.5, -0.5, 0.25, 3};
      std::vector<double> targets = {1, 0, 1, 0, 1, 0};
      const Values all = run(0, {{X(0), x}, {X(1), targets}});
      CHECK(std::isfinite(all.at(State(0))[0]));
      targets[0] = kNone;
      targets[5] = kNone;
      const Values some = run(0, {{X(0), x}, {X(1), targets}});
      CHECK(some.at(State(0))[0] < all.at(State(0))[0]);
      CHECK(some.at(Y()) == all.at(Y()));
      const std::vector<double> dx = run(1, {{Y(), all.at(Y())}, {X(1), targets}}).at(Dx());
      for (size_t i = 0; i < dx.size(); ++i) {
        CAPTURE(i);
        const bool has_none = i == 0 || i == 5 || all.at(Y())[i] == targets[i];
        CHECK((dx[i] == 0) == has_none);
      }
      const Values none = run(0, {{X(0), x}, {X(1), std::vector<double>(6, kNone)}});
      CHECK(none.at(State(0)) == std::vector<double>{0, 0});
    }
  }
}

void CheckCertainFocalLoss(Backend& backend, const DeviceAccess& access) {
  const std::vector<TensorSpec> inputs(2, {.shape = {1, 8, 1, 1}});
  const std::vector<double> x = {-89, -95, -103.9, -200, 89, 95, 200, -20};
  const std::vector<double> targets = {0, 0, 0, 0, 1, 1, 1, 0};
  for (const float gamma : {0.0F, 0.05F, 2.0F}) {
    CAPTURE(gamma);
    const FocalLoss loss = {.alpha = 0.5F, .gamma = gamma};
    const auto run = [&](size_t step, const Values& given) {
      return ResultsOf(backend, access, loss, inputs, step, given);
    };
    const std::vector<double> y = run(0, {{X(0), x}, {X(1), targets}}).at(Y());
    const std::vector<double> dx = run(1, {{Y(), y}, {X(1), targets}}).at(Dx());
    for (size_t i = 0; i + 1 < dx.size(); ++i) {
      CAPTURE(i);
      CHECK(std::abs(dx[i]) < 1e-6);
    }
    // (1 + gamma) y^(1 + gamma) for a small y, of which neither term may be lost.
    const double power = std::pow(y.back(), 1 + static_cast<double>(gamma));
    const double last = (1 + static_cast<double>(gamma)) * power / 2 / 8;
    CHECK(dx.back() == doctest::Approx(last).epsilon(1e-3).scale(0));
  }
}

void CheckDiceOfKnownLabels(Backend& backend, const DeviceAccess& access) {
  constexpr double kNone = kNoLabel;
  const std::vector<TensorSpec> inputs = {{.shape = {2, 2, 1, 3}},
                                          {.shape = {2, 1, 3}, .dtype = DType::kInt32}};
  const std::vector<double> logits = {1, -1, 0.5, -0.5, 0.25, 2, 3, 2, 1, 1, 2, 3};
  for (const bool batch : {false, true}) {
    CAPTURE(batch);
    const DiceLoss dice = {.batch = batch, .cross_entropy = 1};
    const auto run = [&](size_t step, const Values& given) {
      return ResultsOf(backend, access, dice, inputs, step, given);
    };
    const auto loss_of = [&](const std::vector<double>& labels) {
      return run(0, {{X(0), logits}, {X(1), labels}}).at(State(0));
    };
    const std::vector<double> labels = {0, kNone, 1, kNone, kNone, kNone};
    const Values some = run(0, {{X(0), logits}, {X(1), labels}});
    const double y0 = 1 / (1 + std::exp(-1.5)), y2 = 1 / (1 + std::exp(-1.5));  // of the labels
    const double dice0 = 2 * y0 / (y0 + (1 - y2) + 1), dice1 = 2 * y2 / ((1 - y0) + y2 + 1);
    const double of_image = -(dice0 + dice1) / 2 - (std::log(y0) + std::log(y2)) / 2;
    CHECK(some.at(State(0))[0] == doctest::Approx(batch ? of_image : of_image / 2).epsilon(1e-4));
    CHECK(some.at(State(0))[1] == 2);
    const std::vector<double> dx =
        run(1, {{Y(), some.at(Y())}, {X(1), labels}, {Saved(0), some.at(Saved(0))}}).at(Dx());
    for (size_t i = 0; i < dx.size(); ++i) {
      CAPTURE(i);
      CHECK((dx[i] != 0) == (i < 6 && i % 3 != 1));
    }
    CHECK(loss_of(std::vector<double>(6, kNone)) == std::vector<double>{0, 0});
    CHECK(std::isnan(loss_of({0, 1, 2, 0, 0, 0})[0]));
    CHECK(std::isnan(loss_of({0, 1, -2, 0, 0, 0})[0]));
  }
}

}  // namespace neap::testing
