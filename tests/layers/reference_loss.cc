#include "tests/layers/reference_loss.h"

#include <cmath>
#include <limits>
#include <vector>

#include "neap/core/input/batch.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// The position of class c of label i in logits {N, C, H, W}.
size_t ClassAt(const Shape& shape, size_t label, size_t c) {
  const size_t pixels = static_cast<size_t>(shape.h() * shape.w());
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

}  // namespace

Values ReferenceSoftmaxCrossEntropy(const StepSignature& signature, const Values& given) {
  if (signature.phase == Phase::kForward) return SoftmaxForward(signature, given);
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

}  // namespace neap::testing
