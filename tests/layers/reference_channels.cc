#include "tests/layers/reference_channels.h"

#include <algorithm>
#include <vector>

#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/scale_shift.h"

namespace neap::testing {

using namespace operands;

Values ReferenceScaleShift(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const ScaleShift& layer = *signature.layer.As<ScaleShift>();
  const Shape& shape = signature.Spec(forward ? X() : Dy()).shape;
  const auto number = [&](bool learned, Operand param, float fixed, size_t i) {
    return learned ? given.at(param)[ChannelOf(shape, i)] : static_cast<double>(fixed);
  };
  const Operand shift_of = Param(layer.shift_param());
  std::vector<double> result = given.at(forward ? X() : Dy());
  const std::vector<double> read = result;
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] *= number(layer.learns_scale, Param(0), layer.scale, i);
    if (forward) result[i] += number(layer.learns_shift, shift_of, layer.shift, i);
  }
  Values results = {{forward ? Y() : Dx(), result}};
  if (forward) return results;
  const auto channels = static_cast<size_t>(shape.c());
  std::vector<double> products(channels), sums(channels);
  for (size_t i = 0; i < read.size(); ++i) {
    sums[ChannelOf(shape, i)] += read[i];
    if (layer.learns_scale) products[ChannelOf(shape, i)] += read[i] * given.at(X())[i];
  }
  if (layer.learns_scale) results[ParamGrad(0)] = products;
  if (layer.learns_shift) results[ParamGrad(layer.shift_param())] = sums;
  return results;
}

Values ReferenceChannelSlice(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const TensorSpec& whole = signature.Spec(forward ? X() : Dx());
  const TensorSpec& slice = signature.Spec(forward ? Y() : Dy());
  const int64_t pixels = whole.shape.positions();
  const auto run = static_cast<size_t>(slice.shape.c() * pixels);
  const std::vector<double>& input = given.at(forward ? X() : Dy());
  std::vector<double> result(static_cast<size_t>((forward ? slice : whole).elements()));
  for (int64_t n = 0; n < whole.shape.n(); ++n) {
    const int64_t first = signature.layer.As<ChannelSlice>()->first;
    const auto in_whole = static_cast<size_t>((n * whole.shape.c() + first) * pixels);
    const size_t in_slice = static_cast<size_t>(n) * run;
    for (size_t i = 0; i < run; ++i)
      result[(forward ? in_slice : in_whole) + i] = input[(forward ? in_whole : in_slice) + i];
  }
  return {{forward ? Y() : Dx(), result}};
}

// Element by element. A gradient that is not given is 0.
Values ReferenceChannelSplit(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Shape& whole = signature.Spec(forward ? X() : Dx()).shape;
  const std::vector<int64_t>& channels = signature.layer.As<ChannelSplit>()->channels;
  Values results;
  if (!forward) results[Dx()].resize(static_cast<size_t>(whole.elements()));
  for (int64_t i = 0; i < whole.elements(); ++i) {
    const int64_t pixel = i % whole.positions();
    const int64_t image = i / whole.positions() / whole.c();
    int64_t channel = i / whole.positions() % whole.c();
    int part = 0;
    for (; channel >= channels[static_cast<size_t>(part)]; ++part)
      channel -= channels[static_cast<size_t>(part)];
    const int64_t row = image * channels[static_cast<size_t>(part)] + channel;
    const auto in_part = static_cast<size_t>(row * whole.positions() + pixel);
    const auto in_whole = static_cast<size_t>(i);
    if (forward) {
      std::vector<double>& y = results[Y(part)];
      y.resize(std::max(y.size(), in_part + 1));
      y[in_part] = given.at(X())[in_whole];
    } else if (signature.Has(Dy(part))) {
      results[Dx()][in_whole] = given.at(Dy(part))[in_part];
    }
  }
  return results;
}

// The formula of the header, channel by channel.
Values ReferenceChannelShuffle(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Shape& shape = signature.Spec(forward ? X() : Dx()).shape;
  const int64_t groups = signature.layer.As<ChannelShuffle>()->groups;
  const int64_t pixels = shape.positions();
  const std::vector<double>& input = given.at(forward ? X() : Dy());
  std::vector<double> result(input.size());
  for (int64_t i = 0; i < std::ssize(input); ++i) {
    const int64_t channel = i / pixels % shape.c();  // of y
    const int64_t from = channel % groups * (shape.c() / groups) + channel / groups;
    const auto in_x = static_cast<size_t>(i + (from - channel) * pixels);
    const auto in_y = static_cast<size_t>(i);
    result[forward ? in_y : in_x] = input[forward ? in_x : in_y];
  }
  return {{forward ? Y() : Dx(), result}};
}

std::vector<double> AsStored(const TensorSpec& spec, const std::vector<double>& values) {
  return Is16Bit(spec.dtype) ? Rounded(spec, values) : values;
}

}  // namespace neap::testing
