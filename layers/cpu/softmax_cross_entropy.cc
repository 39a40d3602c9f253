#include "neap/layers/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

using namespace operands;

// What one image adds to the metrics.
struct Score {
  double loss;
  bool correct;
};

bool IsLargest(const float* logits, int64_t classes, int64_t label) {
  const float own = logits[label];
  for (int64_t c = 0; c < classes; ++c) {
    const bool beaten = c < label ? !(logits[c] < own) : !(logits[c] <= own);
    if (beaten) return false;
  }
  return true;
}

// y over logits is allowed: what the score needs of the logits is read first.
Score SoftmaxRow(const float* logits, int64_t classes, int32_t label, float* y) {
  const float largest = *std::max_element(logits, logits + classes);
  const bool valid = label >= 0 && label < classes;
  const float own = valid ? logits[label] - largest : std::numeric_limits<float>::quiet_NaN();
  const bool correct = valid && IsLargest(logits, classes, label);
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    y[c] = std::exp(logits[c] - largest);
    sum += static_cast<double>(y[c]);
  }
  const float scale = static_cast<float>(1.0 / sum);
  for (int64_t c = 0; c < classes; ++c) y[c] *= scale;
  return {.loss = std::log(sum) - static_cast<double>(own), .correct = correct};
}

void Forward(const LoopArgs& args) {
  const Shape& shape = args.signature.Spec(X(0)).shape;
  const float* const logits = args.Get<float>(X(0));
  const int32_t* const labels = args.Get<int32_t>(X(1));
  float* const y = args.Get<float>(Y());
  double loss = 0;
  int64_t correct = 0;
  for (int64_t n = 0; n < shape.n(); ++n) {
    const int64_t row = n * shape.c();
    const Score score = SoftmaxRow(logits + row, shape.c(), labels[n], y + row);
    loss += score.loss;
    correct += score.correct ? 1 : 0;
  }
  float* const metrics = args.Find<float>(State(0));
  if (metrics == nullptr || args.signature.rerun) return;
  metrics[0] = static_cast<float>(loss / static_cast<double>(shape.n()));
  metrics[1] = static_cast<float>(correct);
}

void Backward(const LoopArgs& args) {
  const Shape& shape = args.signature.Spec(Y()).shape;
  const float* const y = args.Get<float>(Y());
  const int32_t* const labels = args.Get<int32_t>(X(1));
  float* const dx = args.Get<float>(Dx());
  const float batch = static_cast<float>(shape.n());
  for (int64_t n = 0; n < shape.n(); ++n) {
    for (int64_t c = 0; c < shape.c(); ++c) {
      const int64_t at = n * shape.c() + c;
      dx[at] = (y[at] - (c == labels[n] ? 1.0F : 0.0F)) / batch;
    }
  }
}

}  // namespace

absl::StatusOr<Candidates> SoftmaxForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward);
}

absl::StatusOr<Candidates> SoftmaxBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward);
}

}  // namespace neap::cpu
