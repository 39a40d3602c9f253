#include "neap/layers/target_loss.h"

#include <algorithm>
#include <cmath>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/loss/loss_columns.h"

namespace neap::cpu {
namespace {

using namespace operands;

struct SquaredError {
  using Definition = MeanSquaredError;
  explicit SquaredError(const Definition& /*layer*/) {}
  static float Output(float x) { return x; }
  static double Loss(double x, double target) { return (x - target) * (x - target); }
  static float Gradient(float y, float target) { return 2.0F * (y - target); }
};

float SigmoidOf(float x) {
  const float e = std::exp(-std::abs(x));
  return x >= 0 ? 1.0F / (1.0F + e) : e / (1.0F + e);
}
// log(1 + exp(-|x|)), where exp cannot overflow.
double LogOfTail(double x) { return std::log1p(std::exp(-std::abs(x))); }
// log(1 + exp(x)) - target * x
double CrossEntropyOf(double x, double target) {
  return std::max(x, 0.0) - x * target + LogOfTail(x);
}

struct SigmoidCrossEntropy {
  using Definition = BinaryCrossEntropy;
  explicit SigmoidCrossEntropy(const Definition& layer) : more(layer.positive_weight - 1) {}
  static float Output(float x) { return SigmoidOf(x); }
  double Loss(double x, double target) const {
    const double positive = std::max(-x, 0.0) + LogOfTail(x);
    return CrossEntropyOf(x, target) + static_cast<double>(more) * target * positive;
  }
  float Gradient(float y, float target) const { return y - target + more * target * (y - 1); }
  float more;  // the weight of positive targets less 1
};

struct SigmoidFocal {
  using Definition = FocalLoss;
  explicit SigmoidFocal(const Definition& layer) : alpha(layer.alpha), gamma(layer.gamma) {}
  static float Output(float x) { return SigmoidOf(x); }
  double Loss(double x, double target) const {
    const double e = std::exp(-std::abs(x));
    const double y = (x >= 0 ? 1 : e) / (1 + e), rest = (x >= 0 ? e : 1) / (1 + e);
    const double wrong = y * (1 - target) + rest * target;
    const auto of_positive = static_cast<double>(alpha);
    const double share = of_positive * target + (1 - of_positive) * (1 - target);
    return share * std::pow(wrong, static_cast<double>(gamma)) * CrossEntropyOf(x, target);
  }
  float Gradient(float y, float target) const {
    const float rest = 1.0F - y, wrong = y * (1 - target) + rest * target;
    const float share = alpha * target + (1 - alpha) * (1 - target);
    // y (1 - y) times the cross-entropy, over what is wrong: a mean of the two below, which is
    // finite where a power of what is wrong is not.
    const float of_all = target * rest * XLogX(y) + (1 - target) * y * RestLogRest(y);
    const float entropy = wrong == 0 ? 0.0F : -of_all / wrong;
    const float power = std::pow(wrong, gamma);
    return share * power * (y - target + gamma * (1 - 2 * target) * entropy);
  }
  // p log(p) and (1 - p) log(1 - p), which are 0 where p is 0 or 1.
  static float XLogX(float p) { return p == 0 ? 0.0F : p * std::log(p); }
  static float RestLogRest(float p) { return p == 1 ? 0.0F : (1 - p) * std::log1p(-p); }
  float alpha, gamma;
};

// The first of the largest values. Those that are NaN count as the smallest.
int64_t Largest(Column<const float> values, int64_t count) {
  int64_t largest = 0;
  for (int64_t c = 1; c < count; ++c) {
    const bool larger =
        values[c] > values[largest] || (std::isnan(values[largest]) && !std::isnan(values[c]));
    if (larger) largest = c;
  }
  return largest;
}

bool IsCorrect(Column<const float> x, Column<const float> targets, int64_t channels) {
  const int64_t wanted = Largest(targets, channels);
  if (channels == 1 || std::isnan(targets[wanted])) return false;
  for (int64_t c = 0; c < channels; ++c) {
    const bool beaten = c < wanted ? !(x[c] < x[wanted]) : !(x[c] <= x[wanted]);
    if (beaten) return false;
  }
  return true;
}

// y may overwrite x: of each image or pixel, x is read before y is written.
template <typename Kind>
void Forward(const LoopArgs& args) {
  const Columns columns(args.signature.Spec(X(0)));
  const Kind kind(*args.signature.layer.As<typename Kind::Definition>());
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < columns.count; ++i) {
    const Column<const float> x = columns.Of(args.Get<const float>(X(0)), i);
    const Column<const float> targets = columns.Of(args.Get<const float>(X(1)), i);
    const Column<float> y = columns.Of(args.Get<float>(Y()), i);
    correct += IsCorrect(x, targets, columns.channels) ? 1 : 0;
    for (int64_t c = 0; c < columns.channels; ++c) {
      if (!std::isnan(targets[c]))
        loss += kind.Loss(static_cast<double>(x[c]), static_cast<double>(targets[c]));
      y[c] = kind.Output(x[c]);
    }
  }
  const auto elements =
      static_cast<double>(columns.CountInBatch(args.signature) * columns.channels);
  StoreMetrics(args, loss / elements, correct);
}

template <typename Kind>
void Backward(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Y());
  const float* const y = args.Get<float>(Y());
  const float* const targets = args.Get<float>(X(1));
  float* const dx = args.Get<float>(Dx());
  const auto& layer = *args.signature.layer.As<typename Kind::Definition>();
  const Kind kind(layer);
  const float factor = GradientFactor(args, layer.weight);
  const Columns columns(spec);
  const auto elements = static_cast<float>(columns.CountInBatch(args.signature) * columns.channels);
  for (int64_t i = 0; i < spec.elements(); ++i) {
    const float gradient = kind.Gradient(y[i], targets[i]) / elements * factor;
    dx[i] = std::isnan(targets[i]) ? 0.0F : gradient;
  }
}

template <typename Kind>
absl::StatusOr<Candidates> Steps(const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  return OwnLoop(signature, forward ? Forward<Kind> : Backward<Kind>);
}

}  // namespace

absl::StatusOr<Candidates> MeanSquaredErrorSteps(const StepSignature& signature) {
  return Steps<SquaredError>(signature);
}

absl::StatusOr<Candidates> BinaryCrossEntropySteps(const StepSignature& signature) {
  return Steps<SigmoidCrossEntropy>(signature);
}

absl::StatusOr<Candidates> FocalLossSteps(const StepSignature& signature) {
  return Steps<SigmoidFocal>(signature);
}

}  // namespace neap::cpu
