#include "tests/layers/reference_loss.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "neap/core/vision/batch.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// The results of a loss with its weight, from those of the same loss without.
template <typename Definition>
Values Weighted(const StepSignature& signature, Values results) {
  const auto weight = static_cast<double>(signature.layer.As<Definition>()->weight);
  for (auto& [operand, values] : results) {
    if (operand != Dx()) continue;
    for (double& value : values) value *= weight;
  }
  return results;
}

// The position of class c of label i in logits {N, C, H, W}.
size_t ClassAt(const Shape& shape, size_t label, size_t c) {
  const size_t pixels = static_cast<size_t>(shape.positions());
  return (label / pixels * static_cast<size_t>(shape.c()) + c) * pixels + label % pixels;
}

// The target of class c of an image or pixel with this label.
double TargetOf(const StepSignature& signature, double label, size_t c, size_t classes) {
  const auto smoothing =
      static_cast<double>(signature.layer.As<SoftmaxCrossEntropy>()->label_smoothing);
  const double of_class = label == static_cast<double>(c) ? 1 - smoothing : 0;
  return of_class + smoothing / static_cast<double>(classes);
}

Values SoftmaxForward(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(X(0)).shape;
  const size_t classes = static_cast<size_t>(shape.c());
  const Vector& logits = given.at(X(0));
  const Vector& labels = given.at(X(1));
  Vector y(logits.size());
  Vector metrics(2);
  for (size_t i = 0; i < labels.size(); ++i) {
    size_t winner = 0;
    const auto logit = [&](size_t c) { return logits[ClassAt(shape, i, c)]; };
    for (size_t c = 0; c < classes; ++c) winner = logit(c) > logit(winner) ? c : winner;
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(logit(c) - logit(winner));
    for (size_t c = 0; c < classes; ++c) {
      y[ClassAt(shape, i, c)] = std::exp(logit(c) - logit(winner)) / sum;
    }
    metrics[1] += static_cast<double>(winner) == labels[i] ? 1 : 0;
    if (labels[i] == kNoLabel) continue;
    if (labels[i] < 0 || labels[i] >= static_cast<double>(classes))
      metrics[0] = std::numeric_limits<double>::quiet_NaN();
    for (size_t c = 0; c < classes; ++c) {
      metrics[0] +=
          TargetOf(signature, labels[i], c, classes) * (std::log(sum) + logit(winner) - logit(c));
    }
  }
  metrics[0] /= static_cast<double>(labels.size());
  if (signature.rerun) return {{Y(), y}};
  return {{Y(), y}, {State(0), metrics}};
}

// The first of the largest elements of a pixel.
size_t Largest(const Vector& values, const Shape& shape, size_t pixel) {
  size_t largest = 0;
  for (size_t c = 1; c < static_cast<size_t>(shape.c()); ++c) {
    if (values[ClassAt(shape, pixel, c)] > values[ClassAt(shape, pixel, largest)]) largest = c;
  }
  return largest;
}

// A loss that is the mean of `loss`(x, target), and has the output `output`(x) and the gradient
// `factor` * (y - target) of an element.
template <typename Loss, typename Output>
Values TargetLoss(const StepSignature& signature, const Values& given, double factor,
                  const Loss& loss, const Output& output) {
  const Vector& targets = given.at(X(1));
  const auto elements = static_cast<double>(targets.size());
  if (signature.phase != Phase::kForward) {
    Vector dx = given.at(Y());
    for (size_t i = 0; i < dx.size(); ++i)
      dx[i] = std::isnan(targets[i]) ? 0 : factor * (dx[i] - targets[i]) / elements;
    return {{Dx(), dx}};
  }
  const Vector& x = given.at(X(0));
  Vector y(x.size()), metrics(2);
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = output(x[i]);
    metrics[0] += std::isnan(targets[i]) ? 0 : loss(x[i], targets[i]) / elements;
  }
  const Shape& shape = signature.Spec(X(0)).shape;
  for (size_t i = 0; shape.c() > 1 && i < x.size() / static_cast<size_t>(shape.c()); ++i)
    metrics[1] += Largest(x, shape, i) == Largest(targets, shape, i) ? 1 : 0;
  if (signature.rerun) return {{Y(), y}};
  return {{Y(), y}, {State(0), metrics}};
}

Values SoftmaxBackward(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(Y()).shape;
  const size_t classes = static_cast<size_t>(shape.c());
  const Vector& labels = given.at(X(1));
  Vector dx = given.at(Y());
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t c = 0; c < classes; ++c) {
      double& at = dx[ClassAt(shape, i, c)];
      at = labels[i] == kNoLabel ? 0 : at - TargetOf(signature, labels[i], c, classes);
    }
  }
  for (double& v : dx) v /= static_cast<double>(labels.size());
  return {{Dx(), dx}};
}

}  // namespace

Values ReferenceSoftmaxCrossEntropy(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  return Weighted<SoftmaxCrossEntropy>(
      signature, forward ? SoftmaxForward(signature, given) : SoftmaxBackward(signature, given));
}

Values ReferenceMeanSquaredError(const StepSignature& signature, const Values& given) {
  const auto loss = [](double x, double target) { return (x - target) * (x - target); };
  return Weighted<MeanSquaredError>(
      signature, TargetLoss(signature, given, 2, loss, [](double x) { return x; }));
}

Values ReferenceBinaryCrossEntropy(const StepSignature& signature, const Values& given) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto loss = [&](double x, double target) {
    return -target * std::log(sigmoid(x)) - (1 - target) * std::log(sigmoid(-x));
  };
  return Weighted<BinaryCrossEntropy>(signature, TargetLoss(signature, given, 1, loss, sigmoid));
}

}  // namespace neap::testing
