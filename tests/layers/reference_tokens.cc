#include "tests/layers/reference_tokens.h"

#include <cmath>
#include <limits>
#include <vector>

#include "neap/core/program/feeds.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "tests/layers/reference_channels.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// The place of channel c at a position, counted over all examples, in the order N, C, T.
size_t TokenChannelAt(const Shape& shape, size_t position, size_t c) {
  const size_t positions = static_cast<size_t>(shape.positions());
  const size_t channels = static_cast<size_t>(shape.c());
  return (position / positions * channels + c) * positions + position % positions;
}

bool IsId(double id, const Embedding& layer) {
  return id >= 0 && id < static_cast<double>(layer.vocabulary);
}

// A loss and the gradients of one iteration.
struct TokenLoss {
  Vector losses, dx, dweight, dbias;
  double correct = 0;
};

// Softmax and cross-entropy of a position, whose logits become their gradients. Returns the loss,
// and whether the label is the first of the largest logits.
std::pair<double, bool> Score(double label, double factor, Vector& logits) {
  size_t winner = 0;
  for (size_t v = 1; v < logits.size(); ++v) winner = logits[v] > logits[winner] ? v : winner;
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - logits[winner]);
  const bool is_class = label >= 0 && label < static_cast<double>(logits.size());
  double loss = std::numeric_limits<double>::quiet_NaN();
  if (is_class) loss = std::log(sum) + logits[winner] - logits[static_cast<size_t>(label)];
  if (label == kNoLabel) loss = 0;
  const double largest = logits[winner];
  for (size_t v = 0; v < logits.size(); ++v) {
    const double target = static_cast<double>(v) == label ? 1 : 0;
    const double gradient = (std::exp(logits[v] - largest) / sum - target) * factor;
    logits[v] = label == kNoLabel ? 0 : gradient;
  }
  return {loss, static_cast<double>(winner) == label};
}

TokenLoss TokenLossOf(const StepSignature& signature, const Values& given) {
  const LinearCrossEntropy& layer = *signature.layer.As<LinearCrossEntropy>();
  const TensorSpec& spec = signature.Spec(X(0));
  const Vector &x = given.at(X(0)), &labels = given.at(X(1)), &weight = given.at(Param(0));
  const size_t channels = static_cast<size_t>(spec.shape.c());
  const size_t classes = static_cast<size_t>(layer.classes);
  const double factor = static_cast<double>(layer.weight) / static_cast<double>(labels.size());
  const TensorSpec row = {.shape = {layer.classes}, .dtype = spec.dtype};
  TokenLoss result = {.losses = {},
                      .dx = Vector(x.size()),
                      .dweight = Vector(weight.size()),
                      .dbias = Vector(classes)};
  for (size_t i = 0; i < labels.size(); ++i) {
    Vector logits(classes);
    for (size_t k = 0; k < weight.size(); ++k)
      logits[k / channels] += weight[k] * x[TokenChannelAt(spec.shape, i, k % channels)];
    logits = AsStored(row, logits);
    for (size_t v = 0; signature.Has(Param(1)) && v < classes; ++v)
      logits[v] += given.at(Param(1))[v];
    const auto [loss, is_correct] = Score(labels[i], factor, logits);
    result.losses.push_back(loss);
    result.correct += is_correct ? 1 : 0;
    logits = AsStored(row, logits);
    for (size_t k = 0; k < weight.size(); ++k) {
      const size_t at = TokenChannelAt(spec.shape, i, k % channels);
      result.dx[at] += logits[k / channels] * weight[k];
      result.dweight[k] += logits[k / channels] * x[at];
    }
    for (size_t v = 0; v < classes; ++v) result.dbias[v] += logits[v];
  }
  return result;
}

}  // namespace

Values ReferenceEmbedding(const StepSignature& signature, const Values& given) {
  const Embedding& layer = *signature.layer.As<Embedding>();
  const bool forward = signature.phase == Phase::kForward;
  const Vector& ids = given.at(X());
  const Shape& shape = signature.Spec(forward ? Y() : Dy()).shape;
  const size_t channels = static_cast<size_t>(layer.channels);
  Vector result(static_cast<size_t>(signature.Spec(forward ? Y() : ParamGrad(0)).elements()));
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool is_id = IsId(ids[i], layer);
    for (size_t c = 0; c < channels; ++c) {
      const size_t at = TokenChannelAt(shape, i, c);
      const size_t row = is_id ? static_cast<size_t>(ids[i]) * channels + c : 0;
      if (forward) {
        result[at] = is_id ? given.at(Param(0))[row] : std::numeric_limits<double>::quiet_NaN();
      } else if (is_id && layer.padding != static_cast<int64_t>(ids[i])) {
        result[row] += given.at(Dy())[at];
      }
    }
  }
  return {{forward ? Y() : ParamGrad(0), result}};
}

Values ReferencePositionEmbedding(const StepSignature& signature, const Values& given) {
  if (signature.phase == Phase::kForward) {
    Vector y = given.at(X());
    const Vector& weight = given.at(Param(0));
    for (size_t i = 0; i < y.size(); ++i) y[i] += weight[i % weight.size()];
    return {{Y(), y}};
  }
  const Vector& dy = given.at(Dy());
  Vector dweight(static_cast<size_t>(signature.Spec(ParamGrad(0)).elements()));
  for (size_t i = 0; i < dy.size(); ++i) dweight[i % dweight.size()] += dy[i];
  return {{Dx(), dy}, {ParamGrad(0), dweight}};
}

Values ReferencePrependToken(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Shape& whole = signature.Spec(forward ? Y() : Dy()).shape;
  const size_t positions = static_cast<size_t>(whole.positions());
  const size_t channels = static_cast<size_t>(whole.c());
  const size_t elements = static_cast<size_t>(whole.elements());
  if (forward) {
    Vector y(elements);
    for (size_t i = 0; i < elements; ++i) {
      const size_t row = i / positions;
      y[i] = i % positions == 0 ? given.at(Param(0))[row % channels] : given.at(X())[i - row - 1];
    }
    return {{Y(), y}};
  }
  const Vector& dy = given.at(Dy());
  Vector dx, dweight(channels);
  for (size_t i = 0; i < elements; ++i) {
    if (i % positions == 0) {
      dweight[i / positions % channels] += dy[i];
    } else {
      dx.push_back(dy[i]);
    }
  }
  return {{Dx(), dx}, {ParamGrad(0), dweight}};
}

Values ReferenceLinearCrossEntropy(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const bool trains = signature.mode == Mode::kTraining;
  Values result;
  if (forward && trains) {
    result[Y()] = Vector(static_cast<size_t>(signature.Spec(Y()).elements()));
    if (!signature.rerun) result[State(0)] = {0, 0};
    return result;
  }
  const TokenLoss loss = TokenLossOf(signature, given);
  Vector metrics = {0, loss.correct};
  for (double of_label : loss.losses)
    metrics[0] += of_label / static_cast<double>(loss.losses.size());
  if (forward) {
    result = {{Y(), loss.losses}, {State(0), metrics}};
    return result;
  }
  for (size_t i = 0; i < metrics.size(); ++i) metrics[i] += given.at(State(0))[i];
  result = {{Dx(0), loss.dx}, {ParamGrad(0), loss.dweight}, {State(0), metrics}};
  if (signature.Has(ParamGrad(1))) result[ParamGrad(1)] = loss.dbias;
  return result;
}

}  // namespace neap::testing
