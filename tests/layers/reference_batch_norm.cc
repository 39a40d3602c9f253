#include "tests/layers/reference_batch_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "neap/layers/fused_batch_norm.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

struct ChannelMoments {
  Vector mean, variance;
  double count;
};

size_t ChannelOf(const Shape& shape, size_t i) {
  return i / static_cast<size_t>(shape.h() * shape.w()) % static_cast<size_t>(shape.c());
}

ChannelMoments Moments(const Shape& shape, const Vector& x) {
  const size_t channels = static_cast<size_t>(shape.c());
  ChannelMoments m = {Vector(channels), Vector(channels),
                      static_cast<double>(shape.elements() / shape.c())};
  for (size_t i = 0; i < x.size(); ++i) m.mean[ChannelOf(shape, i)] += x[i] / m.count;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    m.variance[c] += (x[i] - m.mean[c]) * (x[i] - m.mean[c]) / m.count;
  }
  return m;
}

Vector Normalise(const StepSignature& signature, const Values& given, const Vector& mean,
                 const Vector& invstd) {
  Vector y = given.at(X());
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t c = ChannelOf(signature.Spec(X()).shape, i);
    y[i] = (y[i] - mean[c]) * invstd[c] * given.at(Param(0))[c] + given.at(Param(1))[c];
  }
  return y;
}

Vector InverseDeviations(const Vector& variance, float epsilon) {
  Vector invstd;
  for (double v : variance) invstd.push_back(1 / std::sqrt(v + static_cast<double>(epsilon)));
  return invstd;
}

Vector Blend(const Vector& running, const Vector& batch, double momentum, double factor) {
  Vector result(running.size());
  for (size_t c = 0; c < running.size(); ++c) {
    result[c] = (1 - momentum) * running[c] + momentum * factor * batch[c];
  }
  return result;
}

Values BatchNormForward(const StepSignature& signature, const Values& given) {
  const BatchNorm layer = FusedBatchNormOf(signature.layer).norm;
  if (signature.mode == Mode::kInference) {
    const Vector invstd = InverseDeviations(given.at(State(1)), layer.epsilon);
    return {{Y(), Normalise(signature, given, given.at(State(0)), invstd)}};
  }
  if (signature.rerun) {
    return {{Y(), Normalise(signature, given, given.at(Saved(0)), given.at(Saved(1)))}};
  }
  const ChannelMoments m = Moments(signature.Spec(X()).shape, given.at(X()));
  const Vector invstd = InverseDeviations(m.variance, layer.epsilon);
  const double momentum = static_cast<double>(layer.momentum);
  const double unbiased = m.count / std::max(m.count - 1, 1.0);
  return {{Y(), Normalise(signature, given, m.mean, invstd)},
          {Saved(0), m.mean},
          {Saved(1), invstd},
          {State(0), Blend(given.at(State(0)), m.mean, momentum, 1)},
          {State(1), Blend(given.at(State(1)), m.variance, momentum, unbiased)}};
}

// dy, or 0 where the ReLU that may follow the normalisation gives 0.
Vector GradientBeforeRelu(const StepSignature& signature, const Values& given) {
  const FusedBatchNorm layer = FusedBatchNormOf(signature.layer);
  Vector dy = given.at(Dy());
  if (!layer.relu) return dy;
  const Vector y = layer.adds ? given.at(Y())
                              : Normalise(signature, given, given.at(Saved(0)), given.at(Saved(1)));
  for (size_t i = 0; i < dy.size(); ++i) {
    if (y[i] <= 0) dy[i] = 0;
  }
  return dy;
}

Values BatchNormBackward(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(X()).shape;
  const Vector& x = given.at(X());
  const Vector dy = GradientBeforeRelu(signature, given);
  const Vector& mean = given.at(Saved(0));
  const Vector& invstd = given.at(Saved(1));
  const double count = static_cast<double>(shape.elements() / shape.c());
  Vector dgamma(mean.size());
  Vector dbeta(mean.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    dgamma[c] += dy[i] * (x[i] - mean[c]) * invstd[c];
    dbeta[c] += dy[i];
  }
  Vector dx(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    const double xhat = (x[i] - mean[c]) * invstd[c];
    dx[i] =
        given.at(Param(0))[c] * invstd[c] * (dy[i] - dbeta[c] / count - xhat * dgamma[c] / count);
  }
  Values result = {{Dx(), dx}, {ParamGrad(0), dgamma}, {ParamGrad(1), dbeta}};
  if (FusedBatchNormOf(signature.layer).adds) result[Dx(1)] = dy;
  return result;
}

}  // namespace

Values ReferenceBatchNorm(const StepSignature& signature, const Values& given) {
  if (signature.phase != Phase::kForward) return BatchNormBackward(signature, given);
  const FusedBatchNorm layer = FusedBatchNormOf(signature.layer);
  Values result = BatchNormForward(signature, given);
  Vector& y = result.at(Y());
  for (size_t i = 0; i < y.size(); ++i) {
    if (layer.adds) y[i] += given.at(X(1))[i];
    if (layer.relu) y[i] = std::max(y[i], 0.0);
  }
  return result;
}

}  // namespace neap::testing
