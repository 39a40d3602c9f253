#include "tests/layers/reference_residual.h"

#include <vector>

#include "neap/core/base/philox.h"
#include "neap/layers/fusion/residual_tail.h"
#include "tests/layers/reference_channels.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

int64_t ImagesOf(const StepSignature& signature) {
  return signature.Spec(signature.phase == Phase::kForward ? Y() : Dy()).shape.n();
}

// The values with the images that are dropped as 0, and the others scaled.
Vector DropImages(const StepSignature& signature, const Values& given, Vector values) {
  if (!signature.Has(Iteration())) return values;
  const float rate = signature.layer.As<ResidualTail>()->drop->rate;
  const Vector& iteration = given.at(Iteration());
  const size_t of_image = values.size() / static_cast<size_t>(ImagesOf(signature));
  for (size_t i = 0; i < values.size(); ++i) {
    const bool keeps =
        DropoutKeeps(static_cast<uint64_t>(iteration[2]), signature.layer_seed,
                     static_cast<uint32_t>(iteration[1]), uint64_t{i / of_image}, rate);
    values[i] = keeps ? values[i] / (1 - static_cast<double>(rate)) : 0;
  }
  return values;
}

}  // namespace

// What the layers between store is rounded.
Values ReferenceResidualTail(const StepSignature& signature, const Values& given) {
  const ResidualTail& tail = *signature.layer.As<ResidualTail>();
  const bool forward = signature.phase == Phase::kForward;
  const TensorSpec& spec = signature.Spec(forward ? Y() : Dy());
  const auto scale = [&](size_t i) {
    if (!tail.scale.has_value()) return 1.0;
    return tail.learns_scale() ? given.at(Param(0))[ChannelOf(spec.shape, i)]
                               : static_cast<double>(tail.scale->scale);
  };
  if (forward) {
    Vector y = given.at(X(0));
    const double shift = tail.scale.has_value() ? tail.scale->shift : 0;
    for (size_t i = 0; i < y.size(); ++i) y[i] = y[i] * scale(i) + shift;
    y = AsStored(spec, DropImages(signature, given, AsStored(spec, y)));
    for (size_t i = 0; i < y.size(); ++i) y[i] += given.at(X(1))[i];
    return {{Y(), y}};
  }
  Vector dx = AsStored(spec, DropImages(signature, given, given.at(Dy())));
  Vector dscale(static_cast<size_t>(spec.shape.c()));
  for (size_t i = 0; i < dx.size(); ++i) {
    if (tail.learns_scale()) dscale[ChannelOf(spec.shape, i)] += dx[i] * given.at(X(0))[i];
    dx[i] *= scale(i);
  }
  Values results = {{Dx(0), dx}};
  if (tail.learns_scale()) results[ParamGrad(0)] = dscale;
  return results;
}

}  // namespace neap::testing
