#include "tests/layers/reference_sync_batch_norm.h"

#include <cmath>

#include "neap/layers/fusion/sync_batch_norm.h"
#include "neap/layers/target_loss.h"
#include "tests/layers/reference_channels.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

double ValuesPerChannel(const Shape& shape) {
  return static_cast<double>(shape.elements() / shape.c());
}

// Of the values of all ranks in a channel.
struct Whole {
  double count = 0, mean = 0, variance = 0;
};
Whole WholeOf(const Vector& statistics, int64_t ranks, int64_t channels, int64_t c) {
  Whole whole;
  for (int64_t r = 0; r < ranks; ++r) {
    const auto row = RowOf(statistics.data(), r, channels);
    whole.count += *row.count;
    whole.mean += *row.count * row.mean[c];
  }
  whole.mean /= whole.count;
  for (int64_t r = 0; r < ranks; ++r) {
    const auto row = RowOf(statistics.data(), r, channels);
    whole.variance += row.squares[c] + *row.count * std::pow(row.mean[c] - whole.mean, 2);
  }
  whole.variance /= whole.count;
  return whole;
}

Values ApplyForward(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(X(0)).shape;
  const BatchNorm& norm = signature.layer.As<BatchNormApply>()->norm;
  const double momentum = static_cast<double>(norm.momentum);
  Values result;
  Vector mean, invstd;
  if (signature.rerun) {
    mean = given.at(Saved(0));
    invstd = given.at(Saved(1));
  }
  for (int64_t c = 0; !signature.rerun && c < shape.c(); ++c) {
    const Whole whole = WholeOf(given.at(X(1)), signature.Spec(X(1)).shape.n(), shape.c(), c);
    const auto blend = [&](int state, double value) {
      const double running = given.at(State(state))[static_cast<size_t>(c)];
      result[State(state)].push_back((1 - momentum) * running + momentum * value);
    };
    mean.push_back(whole.mean);
    invstd.push_back(1 / std::sqrt(whole.variance + static_cast<double>(norm.epsilon)));
    blend(0, whole.mean);
    blend(1, whole.variance * whole.count / std::max(whole.count - 1, 1.0));
  }
  for (size_t i = 0; i < given.at(X(0)).size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    result[Y()].push_back((given.at(X(0))[i] - mean[c]) * invstd[c] * given.at(Param(0))[c] +
                          given.at(Param(1))[c]);
  }
  if (signature.rerun) return result;
  result[Saved(0)] = mean;
  result[Saved(1)] = invstd;
  return result;
}

// By the derivatives of mean and variance by each row.
Values ApplyBackward(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(X(0)).shape;
  const int64_t ranks = signature.Spec(X(1)).shape.n(), channels = shape.c();
  const Vector &statistics = given.at(X(1)), &invstd = given.at(Saved(1));
  const Vector &gamma = given.at(Param(0)), &dy = given.at(Dy());
  Values result = {{ParamGrad(0), Vector(gamma.size())}, {ParamGrad(1), Vector(gamma.size())}};
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    const double xhat = (given.at(X(0))[i] - given.at(Saved(0))[c]) * invstd[c];
    result[ParamGrad(0)][c] += dy[i] * xhat;
    result[ParamGrad(1)][c] += dy[i];
    result[Dx(0)].push_back(gamma[c] * invstd[c] * dy[i]);
  }
  Vector& gradient = result[Dx(1)];
  gradient.resize(statistics.size());
  for (int64_t at = 0; at < channels; ++at) {
    const size_t c = static_cast<size_t>(at);
    const Whole whole = WholeOf(statistics, ranks, channels, at);
    const double by_mean = -gamma[c] * invstd[c] * result[ParamGrad(1)][c];
    const double by_variance = -gamma[c] * std::pow(invstd[c], 2) * result[ParamGrad(0)][c] / 2;
    for (int64_t r = 0; r < ranks; ++r) {
      const auto row = RowOf(statistics.data(), r, channels);
      const auto row_gradient = RowOf(gradient.data(), r, channels);
      const double share = *row.count / whole.count;
      row_gradient.mean[at] = share * (by_mean + 2 * by_variance * (row.mean[at] - whole.mean));
      row_gradient.squares[at] = by_variance / whole.count;
    }
  }
  return result;
}

}  // namespace

Values ReferenceBatchNormStatistics(const StepSignature& signature, const Values& given) {
  const TensorSpec& spec = signature.Spec(X());
  const int64_t channels = spec.shape.c();
  const int rank = signature.layer.As<BatchNormStatistics>()->rank;
  const double count = ValuesPerChannel(spec.shape);
  const Vector& x = given.at(X());
  if (signature.phase == Phase::kForward) {
    Vector statistics(static_cast<size_t>(signature.Spec(Y()).elements()));
    const auto row = RowOf(statistics.data(), rank, channels);
    *row.count = count;
    for (size_t i = 0; i < x.size(); ++i) row.mean[ChannelOf(spec.shape, i)] += x[i] / count;
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = ChannelOf(spec.shape, i);
      row.squares[c] += std::pow(x[i] - row.mean[c], 2);
    }
    return {{Y(), statistics}};
  }
  const auto row = RowOf(given.at(Y()).data(), rank, channels);
  const auto gradient = RowOf(given.at(Dy()).data(), rank, channels);
  Vector dx;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = ChannelOf(spec.shape, i);
    dx.push_back(gradient.mean[c] / count + 2 * gradient.squares[c] * (x[i] - row.mean[c]));
  }
  return {{Dx(), dx}};
}

Values ReferenceBatchNormApply(const StepSignature& signature, const Values& given) {
  return signature.phase == Phase::kForward ? ApplyForward(signature, given)
                                            : ApplyBackward(signature, given);
}

std::vector<double> AsInput(const Layer& layer, Operand input, const TensorSpec& spec,
                            std::vector<double> random) {
  if (layer.As<FocalLoss>() != nullptr && input == X(1)) {
    for (double& target : random) target = std::abs(target) / 2;
    return Rounded(spec, random);
  }
  if (layer.As<BatchNormApply>() == nullptr || input != X(1)) return random;
  const int64_t length = spec.shape[1], channels = (length - kBeforeMeans) / 2;
  for (int64_t r = 0; r < spec.shape.n(); ++r) {
    const auto row = RowOf(random.data(), r, channels);
    *row.count = std::floor(1 + 20 * std::abs(*row.count));
    for (int64_t c = 0; c < channels; ++c) row.squares[c] = *row.count * std::abs(row.squares[c]);
  }
  return Rounded(spec, random);
}

bool HasNoGradient(const Layer& layer, Operand input, const TensorSpec& spec, size_t element) {
  return layer.As<BatchNormApply>() != nullptr && input == X(1) &&
         static_cast<int64_t>(element) % spec.shape[1] < kBeforeMeans;
}

}  // namespace neap::testing
