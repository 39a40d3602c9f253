#include "tests/layers/reference_folded_convolution.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "neap/layers/fusion/folded_convolution.h"
#include "tests/layers/reference_batch_norm.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// A tensor in N, C, H, W order as a function of image and pixel, and channel.
struct Pixels {
  const Vector& values;
  size_t channels, per_image;
  size_t At(size_t pixel, size_t channel) const {
    return (pixel / per_image * channels + channel) * per_image + pixel % per_image;
  }
  double operator()(size_t pixel, size_t channel) const { return values[At(pixel, channel)]; }
  size_t count() const { return values.size() / channels; }
};

Pixels PixelsOf(const Vector& values, const Shape& shape, size_t channels) {
  return {values, channels, static_cast<size_t>(shape.positions())};
}

// The convolution's result.
Vector Linear(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(X()).shape;
  const size_t in = static_cast<size_t>(shape.c());
  const size_t out = static_cast<size_t>(signature.Spec(Param(0)).shape.n());
  const Pixels x = PixelsOf(given.at(X()), shape, in);
  const Vector& w = given.at(Param(0));
  Vector u(x.count() * out);
  const Pixels at = PixelsOf(u, shape, out);
  for (size_t p = 0; p < x.count(); ++p) {
    for (size_t k = 0; k < out; ++k) {
      for (size_t c = 0; c < in; ++c) u[at.At(p, k)] += w[k * in + c] * x(p, c);
    }
  }
  return u;
}

Vector Means(const Pixels& x) {
  Vector means(x.channels);
  for (size_t p = 0; p < x.count(); ++p) {
    for (size_t c = 0; c < x.channels; ++c) means[c] += x(p, c) / static_cast<double>(x.count());
  }
  return means;
}

Vector Covariance(const Pixels& x, const Vector& mean) {
  Vector cov(x.channels * x.channels);
  for (size_t p = 0; p < x.count(); ++p) {
    for (size_t i = 0; i < cov.size(); ++i) {
      const size_t c = i / x.channels, d = i % x.channels;
      cov[i] += (x(p, c) - mean[c]) * (x(p, d) - mean[d]) / static_cast<double>(x.count());
    }
  }
  return cov;
}

Values Forward(const StepSignature& signature, const Values& given) {
  const FoldedConvolution& layer = *signature.layer.As<FoldedConvolution>();
  const Shape& shape = signature.Spec(X()).shape;
  const size_t out = static_cast<size_t>(layer.out_channels);
  const Vector u = Linear(signature, given);
  const Pixels at = PixelsOf(u, shape, out);
  const bool inference = signature.mode == Mode::kInference;
  const double epsilon = static_cast<double>(layer.norm.epsilon);
  Vector mean = inference ? given.at(State(0)) : Means(at), invstd(out);
  Values result;
  for (size_t k = 0; k < out; ++k) {
    double variance = 0;
    for (size_t p = 0; p < at.count() && !inference; ++p) {
      const double centred = at(p, k) - mean[k];
      variance += centred * centred / static_cast<double>(at.count());
    }
    if (inference) variance = given.at(State(1))[k];
    invstd[k] = 1 / std::sqrt(variance + epsilon);
    if (inference || signature.rerun) continue;
    const double momentum = static_cast<double>(layer.norm.momentum);
    const double count = static_cast<double>(at.count());
    const double unbiased = variance * count / std::max(count - 1, 1.0);
    result[State(0)].push_back((1 - momentum) * given.at(State(0))[k] + momentum * mean[k]);
    result[State(1)].push_back((1 - momentum) * given.at(State(1))[k] + momentum * unbiased);
  }
  Vector y = u;
  for (size_t p = 0; p < at.count(); ++p) {
    for (size_t k = 0; k < out; ++k) {
      double& value = y[at.At(p, k)];
      value = (value - mean[k]) * invstd[k] * given.at(Param(1))[k] + given.at(Param(2))[k];
      if (layer.adds) value += given.at(X(1))[at.At(p, k)];
      if (layer.relu) value = std::max(value, 0.0);
    }
  }
  result[Y()] = y;
  if (signature.Has(Saved(3))) result[Saved(3)] = ReluMask(signature.Spec(Y()), y);
  if (inference || signature.rerun) return result;
  const Pixels x = PixelsOf(given.at(X()), shape, static_cast<size_t>(shape.c()));
  result[Saved(0)] = Means(x);
  result[Saved(1)] = invstd;
  result[Saved(2)] = Covariance(x, result[Saved(0)]);
  return result;
}

Values BackwardActivation(const StepSignature& signature, const Values& given) {
  const TensorSpec& spec = signature.Spec(Dz());
  Vector dz = given.at(Dy());
  if (signature.Has(Dy(1))) {
    for (size_t i = 0; i < dz.size(); ++i) dz[i] += given.at(Dy(1))[i];
  }
  dz = Masked(spec, given.at(Saved(3)), std::move(dz));
  dz = Rounded(spec, dz);
  Values result = {{Dz(), dz}};
  Vector& dbeta = result[ParamGrad(2)];
  dbeta = Means(PixelsOf(dz, spec.shape, static_cast<size_t>(spec.shape.c())));
  for (double& sum : dbeta) sum *= static_cast<double>(spec.elements() / spec.shape.c());
  return result;
}

// The gradients behind the ReLU: of the batch norm, whose gradient of u is the convolution's dy.
Values Backward(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(X()).shape;
  const size_t in = static_cast<size_t>(shape.c());
  const size_t out = static_cast<size_t>(signature.Spec(Param(0)).shape.n());
  const Vector u = Linear(signature, given);
  const Pixels at = PixelsOf(u, shape, out);
  const bool relu = signature.layer.As<FoldedConvolution>()->relu;
  const Pixels dz = PixelsOf(given.at(relu ? Dz() : Dy()), shape, out);
  const Pixels x = PixelsOf(given.at(X()), shape, in);
  const Vector mean = Means(at);
  const Vector& invstd = given.at(Saved(1));
  const double count = static_cast<double>(at.count());
  Vector dgamma(out), dbeta(out), dweight(out * in), dx(x.values.size());
  for (size_t p = 0; p < at.count(); ++p) {
    for (size_t k = 0; k < out; ++k) {
      dbeta[k] += dz(p, k);
      dgamma[k] += dz(p, k) * (at(p, k) - mean[k]) * invstd[k];
    }
  }
  for (size_t p = 0; p < at.count(); ++p) {
    for (size_t k = 0; k < out; ++k) {
      const double normalised = (at(p, k) - mean[k]) * invstd[k];
      const double du = given.at(Param(1))[k] * invstd[k] *
                        (dz(p, k) - dbeta[k] / count - normalised * dgamma[k] / count);
      for (size_t c = 0; c < in; ++c) {
        dweight[k * in + c] += du * x(p, c);
        dx[x.At(p, c)] += du * given.at(Param(0))[k * in + c];
      }
    }
  }
  if (signature.phase == Phase::kBackwardData) return {{Dx(), dx}};
  Values result = {{ParamGrad(0), dweight}, {ParamGrad(1), dgamma}};
  if (!relu) result[ParamGrad(2)] = dbeta;
  return result;
}

}  // namespace

Values ReferenceFoldedConvolution(const StepSignature& signature, const Values& given) {
  if (signature.phase == Phase::kForward) return Forward(signature, given);
  if (signature.phase == Phase::kBackwardActivation) return BackwardActivation(signature, given);
  return Backward(signature, given);
}

std::string FoldedConvolutionChoiceFailure(const StepSignature& signature, const Values& got) {
  const bool agrees = got.at(Saved(3)) == ReluMask(signature.Spec(Y()), got.at(Y()));
  return agrees ? "" : "the mask does not say where y is positive";
}

}  // namespace neap::testing
