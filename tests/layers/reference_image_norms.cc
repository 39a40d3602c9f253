#include "tests/layers/reference_image_norms.h"

#include <cmath>
#include <optional>
#include <vector>

#include "neap/layers/fusion/activated_group_norm.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/norm/softmax.h"
#include "tests/layers/reference_activation.h"
#include "tests/layers/reference_channels.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// Which elements of x are normalised together.
struct SetsOfNorm {
  std::vector<size_t> of;  // by element: the number of its set
  size_t sets;
  double count;  // elements of each
  double epsilon;
};

SetsOfNorm SetsOf(const Layer& layer, const Shape& x) {
  const auto positions = static_cast<size_t>(x.positions()), channels = static_cast<size_t>(x.c());
  const auto images = static_cast<size_t>(x.n()), elements = static_cast<size_t>(x.elements());
  SetsOfNorm sets;
  if (const auto* const norm = layer.As<LayerNorm>()) {
    sets.epsilon = static_cast<double>(norm->epsilon);
    sets.sets = images * positions;
    for (size_t i = 0; i < elements; ++i)
      sets.of.push_back(i / (channels * positions) * positions + i % positions);
  } else {
    const auto* const group = layer.As<GroupNorm>();
    const size_t groups = group != nullptr ? static_cast<size_t>(group->groups) : channels;
    sets.epsilon =
        static_cast<double>(group != nullptr ? group->epsilon : layer.As<InstanceNorm>()->epsilon);
    sets.sets = images * groups;
    for (size_t i = 0; i < elements; ++i) sets.of.push_back(i / (elements / sets.sets));
  }
  sets.count = static_cast<double>(elements / sets.sets);
  return sets;
}

// The means of `values` over the sets.
Vector MeansOf(const SetsOfNorm& sets, const Vector& values) {
  Vector means(sets.sets);
  for (size_t i = 0; i < values.size(); ++i) means[sets.of[i]] += values[i] / sets.count;
  return means;
}

Vector NormalisedBy(const SetsOfNorm& sets, const Vector& x, const Vector& mean,
                    const Vector& invstd) {
  Vector xhat(x.size());
  for (size_t i = 0; i < x.size(); ++i) xhat[i] = (x[i] - mean[sets.of[i]]) * invstd[sets.of[i]];
  return xhat;
}

Values ImageNormForward(const StepSignature& signature, const Values& given,
                        const SetsOfNorm& sets) {
  const Shape& shape = signature.Spec(X()).shape;
  const Vector& x = given.at(X());
  Vector mean, invstd;
  if (signature.rerun) {
    mean = given.at(Saved(0));
    invstd = given.at(Saved(1));
  } else {
    mean = MeansOf(sets, x);
    Vector squares(x.size());
    for (size_t i = 0; i < x.size(); ++i) squares[i] = std::pow(x[i] - mean[sets.of[i]], 2);
    for (const double variance : MeansOf(sets, squares))
      invstd.push_back(1 / std::sqrt(variance + sets.epsilon));
  }
  Vector y = NormalisedBy(sets, x, mean, invstd);
  for (size_t i = 0; signature.Has(Param(0)) && i < y.size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    y[i] *= given.at(Param(0))[c];
    if (signature.Has(Param(1))) y[i] += given.at(Param(1))[c];
  }
  Values result = {{Y(), y}};
  if (signature.mode == Mode::kTraining && !signature.rerun) {
    result[Saved(0)] = mean;
    result[Saved(1)] = invstd;
  }
  return result;
}

Values ImageNormBackward(const StepSignature& signature, const Values& given,
                         const SetsOfNorm& sets) {
  const Shape& shape = signature.Spec(X()).shape;
  const bool affine = signature.Has(Param(0));
  const Vector& dy = given.at(Dy());
  const Vector& invstd = given.at(Saved(1));
  const Vector xhat = NormalisedBy(sets, given.at(X()), given.at(Saved(0)), invstd);
  Vector dgamma(static_cast<size_t>(shape.c())), dbeta = dgamma;
  Vector dxhat = dy, products(dy.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    dgamma[c] += dy[i] * xhat[i];
    dbeta[c] += dy[i];
    if (affine) dxhat[i] *= given.at(Param(0))[c];
    products[i] = dxhat[i] * xhat[i];
  }
  const Vector mean = MeansOf(sets, dxhat), mean_product = MeansOf(sets, products);
  Vector dx(dy.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t set = sets.of[i];
    dx[i] = invstd[set] * (dxhat[i] - mean[set] - xhat[i] * mean_product[set]);
  }
  Values result = {{Dx(), dx}};
  if (affine) result[ParamGrad(0)] = dgamma;
  if (signature.Has(ParamGrad(1))) result[ParamGrad(1)] = dbeta;
  return result;
}

}  // namespace

Values ReferenceImageNorm(const StepSignature& signature, const Values& given) {
  const SetsOfNorm sets = SetsOf(signature.layer, signature.Spec(X()).shape);
  return signature.phase == Phase::kForward ? ImageNormForward(signature, given, sets)
                                            : ImageNormBackward(signature, given, sets);
}

Values ReferenceActivatedGroupNorm(const StepSignature& signature, const Values& given) {
  const auto& layer = *signature.layer.As<ActivatedGroupNorm>();
  const TensorSpec& x = signature.Spec(X());
  const std::optional<Layer> behind = layer.activation_layer();
  const auto activate = [&](Phase phase, const Values& values) {
    return ReferenceActivation(SignatureOf(*behind, phase, {x}).value(), values);
  };
  StepSignature norm = signature;
  norm.layer = layer.norm_layer();
  const auto with_absorbed = [&](Values result) {
    if (signature.Has(kAbsorbedBiasGrad))
      result[kAbsorbedBiasGrad] = Vector(static_cast<size_t>(x.shape.c()));
    return result;
  };
  if (!behind.has_value()) return with_absorbed(ReferenceImageNorm(norm, given));
  if (signature.phase == Phase::kForward) {
    Values result = ReferenceImageNorm(norm, given);
    result[Y()] = activate(Phase::kForward, {{X(), AsStored(x, result[Y()])}}).at(Y());
    return result;
  }
  StepSignature rerun = norm;
  rerun.phase = Phase::kForward;
  rerun.rerun = true;
  const Vector z = AsStored(x, ReferenceImageNorm(rerun, given).at(Y()));
  const Vector y = activate(Phase::kForward, {{X(), z}}).at(Y());
  Values before = given;
  before[Dy()] = AsStored(
      x, activate(Phase::kBackwardData, {{X(), z}, {Y(), y}, {Dy(), given.at(Dy())}}).at(Dx()));
  return with_absorbed(ReferenceImageNorm(norm, before));
}

Values ReferenceSoftmax(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Softmax& layer = *signature.layer.As<Softmax>();
  const Shape& shape = signature.Spec(Y()).shape;
  const auto length = static_cast<size_t>(shape[static_cast<int>(layer.axis)]);
  size_t step = 1;
  for (int i = static_cast<int>(layer.axis) + 1; i < shape.rank(); ++i)
    step *= static_cast<size_t>(shape[i]);
  std::vector<double> result = given.at(forward ? X() : Dy());
  const std::vector<double> read = result;
  for (size_t first = 0; first < result.size(); ++first) {
    if (first / step % length != 0) continue;
    double sum = 0;
    for (size_t i = first; i < first + length * step; i += step) {
      if (forward) {
        sum += std::exp(read[i]);
      } else {
        sum += layer.logarithm ? read[i] : read[i] * given.at(Y())[i];
      }
    }
    for (size_t i = first; i < first + length * step; i += step) {
      const double y = forward ? 0 : given.at(Y())[i];
      if (forward) {
        result[i] = layer.logarithm ? read[i] - std::log(sum) : std::exp(read[i]) / sum;
      } else {
        result[i] = layer.logarithm ? read[i] - std::exp(y) * sum : y * (read[i] - sum);
      }
    }
  }
  return {{forward ? Y() : Dx(), result}};
}

}  // namespace neap::testing
