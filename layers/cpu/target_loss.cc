#include "neap/layers/target_loss.h"

#include <algorithm>
#include <cmath>

#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/loss_columns.h"

namespace neap::cpu {
namespace {

using namespace operands;

struct SquaredError {
  using Definition = MeanSquaredError;
  static constexpr float kFactor = 2;  // of the gradient
  static float Output(float x) { return x; }
  static double Loss(double x, double target) { return (x - target) * (x - target); }
};

struct SigmoidCrossEntropy {
  using Definition = BinaryCrossEntropy;
  static constexpr float kFactor = 1;
  static float Output(float x) {
    const float e = std::exp(-std::abs(x));
    return x >= 0 ? 1.0F / (1.0F + e) : e / (1.0F + e);
  }
  // log(1 + exp(x)) - target * x, where exp cannot overflow.
  static double Loss(double x, double target) {
    return std::max(x, 0.0) - x * target + std::log1p(std::exp(-std::abs(x)));
  }
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
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < columns.count; ++i) {
    const Column<const float> x = columns.Of(args.Get<const float>(X(0)), i);
    const Column<const float> targets = columns.Of(args.Get<const float>(X(1)), i);
    const Column<float> y = columns.Of(args.Get<float>(Y()), i);
    correct += IsCorrect(x, targets, columns.channels) ? 1 : 0;
    for (int64_t c = 0; c < columns.channels; ++c) {
      if (!std::isnan(targets[c]))
        loss += Kind::Loss(static_cast<double>(x[c]), static_cast<double>(targets[c]));
      y[c] = Kind::Output(x[c]);
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
  const float weight = args.signature.layer.As<typename Kind::Definition>()->weight;
  const float factor = GradientFactor(args, weight);
  const Columns columns(spec);
  const auto elements = static_cast<float>(columns.CountInBatch(args.signature) * columns.channels);
  for (int64_t i = 0; i < spec.elements(); ++i) {
    const float gradient = Kind::kFactor * (y[i] - targets[i]) / elements * factor;
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

}  // namespace neap::cpu
