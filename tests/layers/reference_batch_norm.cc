#include "tests/layers/reference_batch_norm.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/fusion/activated_group_norm.h"
#include "neap/layers/fusion/norm_pass.h"
#include "tests/layers/reference_activation.h"
#include "tests/layers/reference_channels.h"
#include "tests/layers/reference_window.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

struct ChannelMoments {
  Vector mean, variance;
  double count;
};

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

// One batch norm of the layer: its input, and the first of its parameters, states and saved values.
struct Norm {
  BatchNorm layer;
  Operand x;
  int first;
};
std::vector<Norm> NormsOf(const NormPass& layer) {
  std::vector<Norm> norms = {{layer.norm, X(0), 0}};
  if (layer.addend_norm() != nullptr) norms.push_back({*layer.addend_norm(), X(1), 2});
  return norms;
}

Vector Normalise(const StepSignature& signature, const Values& given, const Norm& norm,
                 const Vector& mean, const Vector& invstd) {
  Vector y = given.at(norm.x);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t c = ChannelOf(signature.Spec(X()).shape, i);
    y[i] = (y[i] - mean[c]) * invstd[c] * given.at(Param(norm.first))[c] +
           given.at(Param(norm.first + 1))[c];
  }
  return y;
}

// The means over H and W.
Vector ImageMeans(const Shape& shape, const Vector& x) {
  const size_t pixels = static_cast<size_t>(shape.positions());
  Vector means(x.size() / pixels);
  for (size_t i = 0; i < x.size(); ++i) means[i / pixels] += x[i] / static_cast<double>(pixels);
  return means;
}
Vector ImageMeanGradient(const Shape& shape, const Vector& dy) {
  const size_t pixels = static_cast<size_t>(shape.positions());
  Vector dx(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i / pixels] / static_cast<double>(pixels);
  return dx;
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

// The normalised x, and what the step saves.
Vector NormForward(const StepSignature& signature, const Values& given, const Norm& norm,
                   Values& result) {
  const int at = norm.first;
  if (signature.mode == Mode::kInference) {
    const Vector invstd = InverseDeviations(given.at(State(at + 1)), norm.layer.epsilon);
    return Normalise(signature, given, norm, given.at(State(at)), invstd);
  }
  if (signature.rerun)
    return Normalise(signature, given, norm, given.at(Saved(at)), given.at(Saved(at + 1)));
  const ChannelMoments m = Moments(signature.Spec(X()).shape, given.at(norm.x));
  const Vector invstd = InverseDeviations(m.variance, norm.layer.epsilon);
  const double momentum = static_cast<double>(norm.layer.momentum);
  const double unbiased = m.count / std::max(m.count - 1, 1.0);
  result[Saved(at)] = m.mean;
  result[Saved(at + 1)] = invstd;
  result[State(at)] = Blend(given.at(State(at)), m.mean, momentum, 1);
  result[State(at + 1)] = Blend(given.at(State(at + 1)), m.variance, momentum, unbiased);
  return Normalise(signature, given, norm, m.mean, invstd);
}

// The first element on whose sign a mask and y, before the ReLU, disagree, unless y is small. The
// bits behind the last element are 0.
std::string MaskFailure(const TensorSpec& spec, const Vector& y, const Vector& mask,
                        double tolerance) {
  const int64_t per_byte = MaskElements(spec.dtype);
  Vector rest = mask;
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t at = MemoryIndex(spec, static_cast<int64_t>(i));
    const size_t byte = static_cast<size_t>(at / per_byte);
    const bool positive = (static_cast<int>(mask[byte]) >> at % per_byte & 1) != 0;
    if (positive) rest[byte] -= static_cast<double>(1 << at % per_byte);
    if (positive ? y[i] < -tolerance : y[i] > tolerance)
      return absl::StrCat("the mask has ", positive, " for element ", i, ", which is ", y[i]);
  }
  return rest == Vector(rest.size()) ? "" : "the mask has bits of no element";
}

// relu(the normalised inputs), before pooling.
Vector ForwardUnpooled(const StepSignature& signature, const Values& given, Values& result) {
  const NormPass layer = NormPassOf(signature.layer);
  const std::vector<Norm> norms = NormsOf(layer);
  Vector y = NormForward(signature, given, norms[0], result);
  Vector addend = layer.adds() ? given.at(X(1)) : Vector(y.size());
  if (layer.addend_norm() != nullptr) addend = NormForward(signature, given, norms[1], result);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] += addend[i];
    if (layer.relu()) y[i] = std::max(y[i], 0.0);
  }
  return y;
}

Values BatchNormForward(const StepSignature& signature, const Values& given) {
  const NormPass layer = NormPassOf(signature.layer);
  Values result;
  result[Y()] = ForwardUnpooled(signature, given, result);
  const Operand saved = layer.MaskOrIndex();
  if (layer.pool() != nullptr) {
    Pooled pooled =
        MaxPooled(*layer.pool(), signature.Spec(X()).shape, signature.Spec(Y()).shape, result[Y()]);
    for (size_t i = 0; i < pooled.y.size(); ++i) {
      if (pooled.y[i] <= 0) pooled.index[i] = kNotPositive;
    }
    result[Y()] = pooled.y;
    if (signature.Has(saved)) result[saved] = pooled.index;
  } else if (layer.has_mask() && signature.Has(saved)) {
    result[saved] = ReluMask(signature.Spec(X()), result[Y()]);
  }
  if (layer.averages()) result[Y()] = ImageMeans(signature.Spec(X()).shape, result[Y()]);
  return result;
}

// The gradient of what is pooled, as if it were stored.
Vector UnpooledGradient(const StepSignature& signature, const Values& given) {
  const NormPass layer = NormPassOf(signature.layer);
  const TensorSpec& spec = signature.Spec(X());
  Vector dy = given.at(Dy());
  if (signature.Has(Dy(1))) {
    const Vector& other = given.at(Dy(1));
    for (size_t i = 0; i < dy.size(); ++i) dy[i] += other[i];
    dy = Rounded(spec, dy);
  }
  if (layer.averages()) return Rounded(spec, ImageMeanGradient(spec.shape, dy));
  if (layer.pool() == nullptr) return dy;
  return Rounded(spec, MaxPoolGradient(*layer.pool(), spec.shape, signature.Spec(Dy()).shape, dy,
                                       given.at(layer.MaskOrIndex())));
}

// The gradient that reaches the normalisation.
Vector GradientBefore(const StepSignature& signature, const Values& given) {
  const NormPass layer = NormPassOf(signature.layer);
  const TensorSpec& spec = signature.Spec(X());
  Vector dy = UnpooledGradient(signature, given);
  if (!layer.relu() || layer.pool() != nullptr) return dy;
  if (layer.adds()) {
    return Masked(spec, given.at(layer.MaskOrIndex()), std::move(dy));
  }
  const Vector y =
      Normalise(signature, given, NormsOf(layer)[0], given.at(Saved(0)), given.at(Saved(1)));
  for (size_t i = 0; i < dy.size(); ++i) {
    if (y[i] <= 0) dy[i] = 0;
  }
  return dy;
}

void NormBackward(const StepSignature& signature, const Values& given, const Norm& norm,
                  const Vector& dz, Values& result) {
  const Shape& shape = signature.Spec(X()).shape;
  const Vector& x = given.at(norm.x);
  const Vector& mean = given.at(Saved(norm.first));
  const Vector& invstd = given.at(Saved(norm.first + 1));
  const double count = static_cast<double>(shape.elements() / shape.c());
  Vector dgamma(mean.size());
  Vector dbeta(mean.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    dgamma[c] += dz[i] * (x[i] - mean[c]) * invstd[c];
    dbeta[c] += dz[i];
  }
  Vector dx(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    const double xhat = (x[i] - mean[c]) * invstd[c];
    dx[i] = given.at(Param(norm.first))[c] * invstd[c] *
            (dz[i] - dbeta[c] / count - xhat * dgamma[c] / count);
  }
  result[Dx(norm.x.index)] = dx;
  result[ParamGrad(norm.first)] = dgamma;
  result[ParamGrad(norm.first + 1)] = dbeta;
}

Values BatchNormBackward(const StepSignature& signature, const Values& given) {
  const NormPass layer = NormPassOf(signature.layer);
  const Vector dz = GradientBefore(signature, given);
  Values result;
  if (layer.adds()) result[Dx(1)] = dz;
  for (const Norm& norm : NormsOf(layer)) NormBackward(signature, given, norm, dz, result);
  return result;
}

// The signature with the concatenation as the only input.
StepSignature OfWhole(StepSignature signature) {
  NormPass layer = NormPassOf(signature.layer);
  layer.concatenates = false;
  signature.layer = layer;
  const TensorSpec whole = signature.Spec(signature.phase == Phase::kForward ? Y() : Dy());
  std::erase_if(signature.operands, [&](OperandSpec& operand) {
    const Slot slot = operand.operand.slot;
    if (slot != Slot::kInput && slot != Slot::kInputGrad) return false;
    operand.tensor = whole;
    return operand.operand.index > 0;
  });
  return signature;
}

// Calls visit(k, i, at) for element i of every part k, which is element `at` of the concatenation.
template <typename Visit>
void ForEachPartElement(const StepSignature& signature, Visit visit) {
  const Shape whole = OfWhole(signature).Spec(X()).shape;
  const size_t pixels = static_cast<size_t>(whole.positions());
  const size_t length = static_cast<size_t>(whole.c()) * pixels;
  size_t begin = 0;
  for (int k = 0; signature.Has(X(k)); ++k) {
    const Shape& part = signature.Spec(X(k)).shape;
    const size_t run = static_cast<size_t>(part.c()) * pixels;
    for (size_t i = 0; i < static_cast<size_t>(part.elements()); ++i)
      visit(k, i, i / run * length + begin + i % run);
    begin += run;
  }
}

Values BatchNormOfConcatenation(const StepSignature& signature, const Values& given) {
  const StepSignature of_whole = OfWhole(signature);
  const size_t elements = static_cast<size_t>(of_whole.Spec(X()).elements());
  Values joined = given;
  joined[X()].assign(elements, 0);
  ForEachPartElement(signature,
                     [&](int k, size_t i, size_t at) { joined[X()][at] = given.at(X(k))[i]; });
  Values result = ReferenceBatchNorm(of_whole, joined);
  const auto whole = result.extract(Dx());
  if (whole.empty()) return result;
  ForEachPartElement(
      signature, [&](int k, size_t, size_t at) { result[Dx(k)].push_back(whole.mapped()[at]); });
  return result;
}

// The activation, which the layer has.
Layer LayerOf(const NormPass::Activation& activation) {
  if (const Clip* const clip = std::get_if<Clip>(&activation)) return *clip;
  if (std::holds_alternative<HardSwish>(activation)) return HardSwish{};
  return Silu{};
}

Values ActivatedNorm(const StepSignature& signature, const Values& given) {
  const NormPass& pass = *signature.layer.As<NormPass>();
  const BatchNorm& norm = pass.norm;
  const TensorSpec& x = signature.Spec(X());
  const Layer behind = LayerOf(pass.activation);
  const auto activate = [&](Phase phase, const Values& values) {
    return ReferenceActivation(SignatureOf(behind, phase, {x}).value(), values);
  };
  StepSignature alone = signature;
  alone.layer = norm;
  if (signature.phase == Phase::kForward) {
    Values result = ReferenceBatchNorm(alone, given);
    result[Y()] = activate(Phase::kForward, {{X(), AsStored(x, result[Y()])}}).at(Y());
    return result;
  }
  const Vector z = AsStored(
      x, Normalise(signature, given, {norm, X(), 0}, given.at(Saved(0)), given.at(Saved(1))));
  const Vector y = activate(Phase::kForward, {{X(), z}}).at(Y());
  const Values gradient =
      activate(Phase::kBackwardData, {{X(), z}, {Y(), y}, {Dy(), given.at(Dy())}});
  Values before = given;
  before[Dy()] = AsStored(x, gradient.at(Dx()));
  return ReferenceBatchNorm(alone, before);
}

}  // namespace

std::vector<double> ReluMask(const TensorSpec& spec, const std::vector<double>& y) {
  const int64_t per_byte = MaskElements(spec.dtype);
  std::vector<double> mask(static_cast<size_t>((spec.elements() + per_byte - 1) / per_byte));
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t at = MemoryIndex(spec, static_cast<int64_t>(i));
    if (y[i] > 0)
      mask[static_cast<size_t>(at / per_byte)] += static_cast<double>(1 << at % per_byte);
  }
  return mask;
}

std::vector<double> Masked(const TensorSpec& spec, const std::vector<double>& mask,
                           std::vector<double> dy) {
  const int64_t per_byte = MaskElements(spec.dtype);
  for (size_t i = 0; i < dy.size(); ++i) {
    const int64_t at = MemoryIndex(spec, static_cast<int64_t>(i));
    const int byte = static_cast<int>(mask[static_cast<size_t>(at / per_byte)]);
    if ((byte >> at % per_byte & 1) == 0) dy[i] = 0;
  }
  return dy;
}

bool IsActivatedNorm(const Layer& layer) {
  if (layer.As<ActivatedGroupNorm>() != nullptr) return true;
  const NormPass* const pass = layer.As<NormPass>();
  return pass != nullptr && !pass->relu() &&
         !std::holds_alternative<std::monostate>(pass->activation);
}

Values ReferenceBatchNorm(const StepSignature& signature, const Values& given) {
  if (IsActivatedNorm(signature.layer)) return ActivatedNorm(signature, given);
  if (NormPassOf(signature.layer).concatenates) return BatchNormOfConcatenation(signature, given);
  return signature.phase == Phase::kForward ? BatchNormForward(signature, given)
                                            : BatchNormBackward(signature, given);
}

std::string BatchNormChoiceFailure(const StepSignature& signature, const Values& given,
                                   const Values& got, double tolerance) {
  const NormPass layer = NormPassOf(signature.layer);
  const TensorSpec& y = signature.Spec(Y());
  const Vector& saved = got.at(layer.MaskOrIndex());
  if (layer.has_mask() && !layer.averages())
    return saved == ReluMask(y, got.at(Y())) ? "" : "the mask does not say where y is positive";
  Values ignored;
  if (layer.averages()) {
    NormPass linear = layer;
    linear.activation = {};
    StepSignature before = signature;
    before.layer = linear;
    return MaskFailure(signature.Spec(X()), ForwardUnpooled(before, given, ignored), saved,
                       tolerance);
  }
  return MaximumFailure(*layer.pool(), signature.Spec(X()).shape, y.shape,
                        ForwardUnpooled(signature, given, ignored), {got.at(Y()), saved},
                        tolerance);
}

}  // namespace neap::testing
