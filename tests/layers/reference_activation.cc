#include "tests/layers/reference_activation.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "neap/layers/activation.h"
#include "neap/layers/fusion/biased_gelu.h"
#include "tests/layers/reference_channels.h"

namespace neap::testing {
namespace {

using namespace operands;

struct Function {
  std::function<double(double x)> value;
  std::function<double(double)> slope;  // of y, or of x where backward reads that
};

Function ClipFunction(const Clip& layer, DType dtype) {
  const std::vector<double> bounds =
      Rounded({.shape = {2}, .dtype = dtype},
              {static_cast<double>(layer.low), static_cast<double>(layer.high)});
  return {[=](double x) { return std::min(std::max(x, bounds[0]), bounds[1]); },
          [=](double y) { return y > bounds[0] && y < bounds[1] ? 1 : 0; }};
}

Function HardSwishFunction() {
  const auto slope = [](double x) {
    if (x <= -3) return 0.0;
    return x >= 3 ? 1 : x / 3 + 0.5;
  };
  return {[](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }, slope};
}

Function SiluFunction() {
  const auto slope = [](double x) {
    const double s = SigmoidOf(x);
    return s * (1 + x * (1 - s));
  };
  return {[](double x) { return x * SigmoidOf(x); }, slope};
}

Function GeluFunction(const Gelu& layer) {
  const double pi = std::acos(-1.0);
  if (layer.approximation == Gelu::Approximation::kNone) {
    const auto phi = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
    return {[=](double x) { return x * phi(x); },
            [=](double x) { return phi(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * pi); }};
  }
  const double factor = 2 * std::sqrt(2 / pi);  // (1 + tanh(u)) / 2 is the sigmoid of 2 u
  const auto inner = [=](double x) { return factor * (x + 0.044715 * x * x * x); };
  return {[=](double x) { return x * SigmoidOf(inner(x)); },
          [=](double x) {
            const double s = SigmoidOf(inner(x)), rest = SigmoidOf(-inner(x));
            return s + x * s * rest * factor * (1 + 3 * 0.044715 * x * x);
          }};
}

Function EluFunction(const Elu& layer) {
  const auto alpha = static_cast<double>(layer.alpha);
  return {[=](double x) { return x > 0 ? x : alpha * std::expm1(x); },
          [=](double x) { return x > 0 ? 1 : alpha * std::exp(x); }};
}

Function SoftplusFunction(const Softplus& layer) {
  const auto beta = static_cast<double>(layer.beta);
  const auto threshold = static_cast<double>(layer.threshold);
  return {
      [=](double x) { return beta * x > threshold ? x : std::log1p(std::exp(beta * x)) / beta; },
      [=](double x) { return beta * x > threshold ? 1 : SigmoidOf(beta * x); }};
}

Function MishFunction() {
  const auto gate = [](double x) { return std::tanh(std::log1p(std::exp(x))); };
  return {[=](double x) { return x * gate(x); },
          [=](double x) { return gate(x) + x * SigmoidOf(x) * (1 - gate(x) * gate(x)); }};
}

Function FunctionOf(const StepSignature& signature) {
  const Layer& layer = signature.layer;
  if (const LeakyRelu* const leaky = layer.As<LeakyRelu>()) {
    const double slope = static_cast<double>(leaky->negative_slope);
    return {[=](double x) { return x > 0 ? x : slope * x; },
            [=](double y) { return y > 0 ? 1 : slope; }};
  }
  if (const Clip* const clip = layer.As<Clip>())
    return ClipFunction(*clip, signature.operands[0].tensor.dtype);
  if (layer.As<HardSigmoid>() != nullptr) {
    return {[](double x) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; },
            [](double x) { return x > -3 && x < 3 ? 1.0 / 6 : 0; }};
  }
  if (layer.As<HardSwish>() != nullptr) return HardSwishFunction();
  if (layer.As<Silu>() != nullptr) return SiluFunction();
  if (const Gelu* const gelu = layer.As<Gelu>()) return GeluFunction(*gelu);
  if (const Elu* const elu = layer.As<Elu>()) return EluFunction(*elu);
  if (const Softplus* const softplus = layer.As<Softplus>()) return SoftplusFunction(*softplus);
  if (layer.As<Mish>() != nullptr) return MishFunction();
  if (layer.As<Sigmoid>() != nullptr) return {SigmoidOf, [](double y) { return y * (1 - y); }};
  if (layer.As<Tanh>() != nullptr)
    return {[](double x) { return std::tanh(x); }, [](double y) { return 1 - y * y; }};
  return {[](double x) { return std::max(x, 0.0); }, [](double y) { return y > 0 ? 1 : 0; }};
}

}  // namespace

Values ReferenceActivation(const StepSignature& signature, const Values& given) {
  const Function function = FunctionOf(signature);
  std::vector<double> result;
  if (signature.phase == Phase::kForward) {
    for (double x : given.at(X())) result.push_back(function.value(x));
    return {{Y(), result}};
  }
  const std::vector<double>& values = given.at(signature.Has(Y()) ? Y() : X());
  const std::vector<double>& dy = given.at(Dy());
  for (size_t i = 0; i < dy.size(); ++i) result.push_back(dy[i] * function.slope(values[i]));
  return {{Dx(), result}};
}

// What the layers between store is rounded.
Values ReferenceBiasedGelu(const StepSignature& signature, const Values& given) {
  const TensorSpec& spec = signature.Spec(X());
  const Function function = GeluFunction(signature.layer.As<BiasedGelu>()->gelu);
  std::vector<double> z = given.at(X());
  for (size_t i = 0; i < z.size(); ++i) z[i] += given.at(Param(0))[ChannelOf(spec.shape, i)];
  z = AsStored(spec, z);
  if (signature.phase == Phase::kForward) {
    std::transform(z.begin(), z.end(), z.begin(), function.value);
    return {{Y(), z}};
  }
  std::vector<double> dx = given.at(Dy());
  for (size_t i = 0; i < dx.size(); ++i) dx[i] *= function.slope(z[i]);
  std::vector<double> dbias(static_cast<size_t>(spec.shape.c()));
  const std::vector<double> stored = AsStored(spec, dx);
  for (size_t i = 0; i < dx.size(); ++i) dbias[ChannelOf(spec.shape, i)] += stored[i];
  return {{Dx(), dx}, {ParamGrad(0), dbias}};
}

Values ReferencePrelu(const StepSignature& signature, const Values& given) {
  const Shape& shape = signature.Spec(X()).shape;
  const std::vector<double>& x = given.at(X());
  const std::vector<double>& slopes = given.at(Param(0));
  const auto slope_of = [&](size_t i) { return slopes.size() == 1 ? 0 : ChannelOf(shape, i); };
  if (signature.phase == Phase::kForward) {
    std::vector<double> y = x;
    for (size_t i = 0; i < y.size(); ++i) y[i] *= x[i] > 0 ? 1 : slopes[slope_of(i)];
    return {{Y(), y}};
  }
  const std::vector<double>& dy = given.at(Dy());
  std::vector<double> dx = dy, gradient(slopes.size());
  for (size_t i = 0; i < dx.size(); ++i) {
    if (x[i] > 0) continue;
    dx[i] *= slopes[slope_of(i)];
    gradient[slope_of(i)] += dy[i] * x[i];
  }
  return {{Dx(), dx}, {ParamGrad(0), gradient}};
}

}  // namespace neap::testing
