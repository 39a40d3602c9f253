#include "tests/layers/reference_loss.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "neap/core/vision/batch.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "tests/layers/reference_activation.h"

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

// The labels of predictions of this shape: of finer ones, those nearest to the positions' centres.
Vector LabelsOf(const StepSignature& signature, const Values& given, const Shape& shape) {
  const Vector& labels = given.at(X(1));
  const Shape& grid = signature.Spec(X(1)).shape;
  if (static_cast<int64_t>(labels.size()) == shape.n() * shape.positions()) return labels;
  Vector nearest;
  for (int64_t i = 0; i < shape.n() * shape.positions(); ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (int axis = shape.spatial_axes() - 1; axis >= 0; --axis) {
      const auto extent = static_cast<double>(shape.spatial()[static_cast<size_t>(axis)]);
      const auto finer = static_cast<double>(grid[axis + 1]);
      const double place = static_cast<double>(rest % static_cast<int64_t>(extent));
      at += static_cast<int64_t>(std::floor((place + 0.5) * finer / extent)) * step;
      rest /= static_cast<int64_t>(extent);
      step *= grid[axis + 1];
    }
    nearest.push_back(labels[static_cast<size_t>(rest * step + at)]);
  }
  return nearest;
}

// The target of class c of an image or pixel with this label.
double TargetOf(const StepSignature& signature, double label, size_t c, size_t classes) {
  const SoftmaxCrossEntropy& layer = *signature.layer.As<SoftmaxCrossEntropy>();
  const auto smoothing = static_cast<double>(layer.label_smoothing);
  const double of_class = label == static_cast<double>(c) ? 1 - smoothing : 0;
  const double target = of_class + smoothing / static_cast<double>(classes);
  return layer.class_weights.empty() ? target
                                     : target * static_cast<double>(layer.class_weights[c]);
}

struct Softmax {
  Vector y, log_y;
  size_t correct = 0;
};

Softmax SoftmaxOf(const Vector& logits, const Vector& labels, const Shape& shape) {
  const auto classes = static_cast<size_t>(shape.c());
  Softmax softmax = {Vector(logits.size()), Vector(logits.size())};
  for (size_t i = 0; i < labels.size(); ++i) {
    size_t winner = 0;
    const auto logit = [&](size_t c) { return logits[ClassAt(shape, i, c)]; };
    for (size_t c = 0; c < classes; ++c) winner = logit(c) > logit(winner) ? c : winner;
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(logit(c) - logit(winner));
    for (size_t c = 0; c < classes; ++c) {
      softmax.log_y[ClassAt(shape, i, c)] = logit(c) - logit(winner) - std::log(sum);
      softmax.y[ClassAt(shape, i, c)] = std::exp(logit(c) - logit(winner)) / sum;
    }
    softmax.correct += static_cast<double>(winner) == labels[i] ? 1 : 0;
  }
  return softmax;
}

Values SoftmaxForward(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(X(0)).shape;
  const size_t classes = static_cast<size_t>(shape.c());
  const Vector labels = LabelsOf(signature, given, shape);
  const Softmax softmax = SoftmaxOf(given.at(X(0)), labels, shape);
  if (signature.rerun) return {{Y(), softmax.y}};
  Vector metrics = {0, static_cast<double>(softmax.correct)};
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kNoLabel) continue;
    if (labels[i] < 0 || labels[i] >= static_cast<double>(classes))
      metrics[0] = std::numeric_limits<double>::quiet_NaN();
    for (size_t c = 0; c < classes; ++c)
      metrics[0] -=
          TargetOf(signature, labels[i], c, classes) * softmax.log_y[ClassAt(shape, i, c)];
  }
  metrics[0] /= static_cast<double>(labels.size());
  return {{Y(), softmax.y}, {State(0), metrics}};
}

// Sums over the known labels of a set of images [first, end).
struct SetSums {
  SetSums(const DiceLoss& layer, const Shape& shape, const Softmax& softmax, const Vector& labels,
          int64_t first, int64_t end)
      : dice(static_cast<size_t>(shape.c())),
        whole(dice.size(), static_cast<double>(layer.smooth)) {
    const auto positions = static_cast<size_t>(shape.positions());
    Vector both = whole;  // 2 I + smooth
    for (size_t i = static_cast<size_t>(first) * positions;
         i < static_cast<size_t>(end) * positions; ++i) {
      if (labels[i] == kNoLabel) continue;
      known += 1;
      for (size_t c = 0; c < dice.size(); ++c) {
        const bool is_class = labels[i] == static_cast<double>(c);
        const double y = softmax.y[ClassAt(shape, i, c)];
        both[c] += is_class ? 2 * y : 0;
        whole[c] += y + (is_class ? 1 : 0);
        entropy -= is_class ? softmax.log_y[ClassAt(shape, i, c)] : 0;
      }
    }
    for (size_t c = 0; c < dice.size(); ++c) dice[c] = both[c] / whole[c];
  }
  Vector dice, whole;
  double known = 0, entropy = 0;
};

Values DiceForward(const StepSignature& signature, const Values& given) {
  const DiceLoss& layer = *signature.layer.As<DiceLoss>();
  const Shape& shape = signature.Spec(X(0)).shape;
  const Vector labels = LabelsOf(signature, given, shape);
  const Softmax softmax = SoftmaxOf(given.at(X(0)), labels, shape);
  const int64_t sets = layer.batch ? 1 : shape.n();
  const size_t first_class = layer.background ? 0 : 1;
  const auto weight = static_cast<double>(layer.cross_entropy);
  Vector metrics = {0, static_cast<double>(softmax.correct)}, saved;
  for (int64_t set = 0; set < sets; ++set) {
    const int64_t images = shape.n() / sets;
    const SetSums sums(layer, shape, softmax, labels, set * images, (set + 1) * images);
    const bool is_known = sums.known > 0;
    const auto counts = [&](size_t c) { return is_known && c >= first_class; };
    for (size_t c = 0; c < sums.dice.size(); ++c)
      saved.push_back(counts(c) ? 2 / sums.whole[c] : 0);
    for (size_t c = 0; c < sums.dice.size(); ++c) {
      saved.push_back(counts(c) ? sums.dice[c] / sums.whole[c] : 0);
      if (counts(c))
        metrics[0] -= sums.dice[c] / static_cast<double>(sums.dice.size() - first_class);
    }
    saved.push_back(is_known ? weight / sums.known : 0);
    if (is_known) metrics[0] += weight * sums.entropy / sums.known;
  }
  metrics[0] /= static_cast<double>(sets);
  Values results = {{Y(), softmax.y}};
  if (signature.Has(Saved(0))) results[Saved(0)] = saved;
  if (!signature.rerun) results[State(0)] = metrics;
  return results;
}

// dx of a class is y times what its dloss/dy is above the mean of all, weighted by y.
Values DiceBackward(const StepSignature& signature, const Values& given) {
  const DiceLoss& layer = *signature.layer.As<DiceLoss>();
  const Shape& shape = signature.Spec(Y()).shape;
  const auto classes = static_cast<size_t>(shape.c());
  const double counted = static_cast<double>(classes) - (layer.background ? 0 : 1);
  const Vector labels = LabelsOf(signature, given, shape);
  const Vector& y = given.at(Y());
  const int64_t sets = layer.batch ? 1 : shape.n();
  Vector dx(y.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kNoLabel) continue;
    const size_t set = layer.batch ? 0 : i / static_cast<size_t>(shape.positions());
    const double* const saved = given.at(Saved(0)).data() + set * (2 * classes + 1);
    const auto slope = [&](size_t c) {
      return (saved[classes + c] - (labels[i] == static_cast<double>(c) ? saved[c] : 0)) / counted;
    };
    double mean = 0;
    for (size_t c = 0; c < classes; ++c) mean += y[ClassAt(shape, i, c)] * slope(c);
    for (size_t c = 0; c < classes; ++c) {
      const double own = y[ClassAt(shape, i, c)];
      const double target = labels[i] == static_cast<double>(c) ? 1 : 0;
      dx[ClassAt(shape, i, c)] = (own * (slope(c) - mean) + saved[2 * classes] * (own - target)) /
                                 static_cast<double>(sets);
    }
  }
  return {{Dx(), dx}};
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
// `gradient`(y, target) of an element.
template <typename Loss, typename Output, typename Gradient>
Values TargetLoss(const StepSignature& signature, const Values& given, const Loss& loss,
                  const Output& output, const Gradient& gradient) {
  const Vector& targets = given.at(X(1));
  const auto elements = static_cast<double>(targets.size());
  if (signature.phase != Phase::kForward) {
    Vector dx = given.at(Y());
    for (size_t i = 0; i < dx.size(); ++i)
      dx[i] = std::isnan(targets[i]) ? 0 : gradient(dx[i], targets[i]) / elements;
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
  const Vector labels = LabelsOf(signature, given, shape);
  Vector dx = given.at(Y());
  for (size_t i = 0; i < labels.size(); ++i) {
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += TargetOf(signature, labels[i], c, classes);
    for (size_t c = 0; c < classes; ++c) {
      double& at = dx[ClassAt(shape, i, c)];
      at = labels[i] == kNoLabel ? 0 : sum * at - TargetOf(signature, labels[i], c, classes);
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
  const auto gradient = [](double y, double target) { return 2 * (y - target); };
  return Weighted<MeanSquaredError>(
      signature, TargetLoss(
                     signature, given, loss, [](double x) { return x; }, gradient));
}

Values ReferenceBinaryCrossEntropy(const StepSignature& signature, const Values& given) {
  const auto positive =
      static_cast<double>(signature.layer.As<BinaryCrossEntropy>()->positive_weight);
  const auto loss = [&](double x, double target) {
    return -positive * target * std::log(SigmoidOf(x)) - (1 - target) * std::log(SigmoidOf(-x));
  };
  const auto gradient = [&](double y, double target) {
    return (1 - target) * y - positive * target * (1 - y);
  };
  return Weighted<BinaryCrossEntropy>(signature,
                                      TargetLoss(signature, given, loss, SigmoidOf, gradient));
}

Values ReferenceFocalLoss(const StepSignature& signature, const Values& given) {
  const FocalLoss& layer = *signature.layer.As<FocalLoss>();
  const auto alpha = static_cast<double>(layer.alpha), gamma = static_cast<double>(layer.gamma);
  const auto share = [&](double target) { return alpha * target + (1 - alpha) * (1 - target); };
  const auto loss = [&](double x, double target) {
    const double y = SigmoidOf(x), rest = SigmoidOf(-x);
    const double entropy = -target * std::log(y) - (1 - target) * std::log(rest);
    return share(target) * std::pow(y * (1 - target) + rest * target, gamma) * entropy;
  };
  const auto gradient = [&](double y, double target) {
    const double wrong = y * (1 - target) + (1 - y) * target;
    const double entropy = -target * std::log(y) - (1 - target) * std::log(1 - y);
    const double of_power =
        gamma * std::pow(wrong, gamma - 1) * (1 - 2 * target) * y * (1 - y) * entropy;
    return share(target) * (std::pow(wrong, gamma) * (y - target) + of_power);
  };
  return Weighted<FocalLoss>(signature, TargetLoss(signature, given, loss, SigmoidOf, gradient));
}

Values ReferenceDiceLoss(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  return Weighted<DiceLoss>(
      signature, forward ? DiceForward(signature, given) : DiceBackward(signature, given));
}

}  // namespace neap::testing
