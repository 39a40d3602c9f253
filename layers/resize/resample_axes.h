// The axes of the layers that interpolate, as kernels take them (layers/steps/resample_axis.h).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "neap/core/base/tensor.h"
#include "neap/core/step/step_signature.h"
#include "neap/core/step/window.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/steps/resample_axis.h"

namespace neap {

struct Fraction {
  int64_t over = 1, under = 1;
};
// The simplest fraction that rounds to a scale between 2^-30 and 2^30, in fp64 or in fp32: the
// first such convergent of its continued fraction. If that has numbers above 2^30, the last one
// that has not, which is nearly as close.
Fraction FractionOf(double scale);
Fraction FractionOf(float scale);

// Whether a Resize may have it: between 2^-30 and 2^30.
bool IsScale(double scale);
// in * scale in fp64, rounded down, as in PyTorch. Too large products saturate.
int64_t ScaledExtent(int64_t in, double scale);

// INVALID_ARGUMENT unless the extents before and after are between 1 and kMaxResampledExtent.
// `what` names what asks for them.
absl::Status CheckResampled(std::string_view what, const Shape& x, const Extents& out);

// One axis of `in` elements that become `out`. `scale` is null if the layer has sizes.
ResampleAxis<int64_t> AxisOf(const Resize& resize, const double* scale, int64_t in, int64_t out);
// The windows of AdaptiveAveragePool.
ResampleAxis<int64_t> AveragedAxis(int64_t in, int64_t out);

// The spatial axes of a step of Resize or AdaptiveAveragePool. Those that sequences and images lack
// come first and have one element.
using ResampleAxes = std::array<ResampleAxis<int64_t>, kMaxSpatialAxes>;
ResampleAxes ResampleAxesOf(const StepSignature& signature);

}  // namespace neap
