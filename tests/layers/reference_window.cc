#include "tests/layers/reference_window.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neap/layers/convolution.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/residual_convolution.h"
#include "neap/layers/pooling.h"
#include "neap/layers/transposed_convolution.h"

namespace neap::testing {
namespace {

using namespace operands;
using Vector = std::vector<double>;

// A shape as numbers, which the loops below read far more often than a Shape is fast for. Axes that
// it lacks have the extent 1.
struct Sizes {
  explicit Sizes(const Shape& s)
      : n(s.n()), c(s.c()), d(s.spatial_axes() == 3 ? s[2] : 1), h(s.h()), w(s.w()) {}
  size_t At(int64_t image, int64_t channel, int64_t plane, int64_t row, int64_t column) const {
    return static_cast<size_t>((((image * c + channel) * d + plane) * h + row) * w + column);
  }
  int64_t n, c, d, h, w;
};

// A window along one axis, the first, second or third from the last; it does not move along one
// that images lack.
struct Along {
  Along(const Convolution& layer, int axes, int from_last) {
    if (from_last >= axes) return;
    const int axis = axes - 1 - from_last;
    stride = layer.stride[axis];
    padding = layer.padding[axis];
    dilation = layer.dilation[axis];
    kernel = layer.kernel[axis];
  }
  int64_t At(int64_t position, int64_t element) const {
    return position * stride - padding + element * dilation;
  }
  int64_t stride = 1, padding = 0, dilation = 1, kernel = 1;
};

// One pair of an output element and an input element in its window.
struct Tap {
  int64_t in_window;    // position, the last axis fastest
  size_t y, x, weight;  // positions
};

// Calls f(tap) for every tap inside the image.
template <typename F>
void ForEachTap(const Convolution& layer, const Shape& x_shape, const Shape& y_shape,
                const Shape& weight_shape, F f) {
  const Sizes x(x_shape), y(y_shape), weight(weight_shape);
  const int axes = x_shape.spatial_axes();
  const Along columns(layer, axes, 0), rows(layer, axes, 1), planes(layer, axes, 2);
  const int64_t out_per_group = y.c / layer.groups;
  for (int64_t i = 0; i < y_shape.elements(); ++i) {
    const int64_t ow = i % y.w;
    const int64_t oh = i / y.w % y.h;
    const int64_t od = i / (y.w * y.h) % y.d;
    const int64_t k = i / (y.w * y.h * y.d) % y.c;
    const int64_t n = i / (y.w * y.h * y.d * y.c);
    for (int64_t at = 0; at < weight.c * weight.d * weight.h * weight.w; ++at) {
      const int64_t s = at % weight.w;
      const int64_t r = at / weight.w % weight.h;
      const int64_t q = at / (weight.w * weight.h) % weight.d;
      const int64_t c = at / (weight.w * weight.h * weight.d);
      const int64_t c_in = k / out_per_group * weight.c + c;
      const int64_t d = planes.At(od, q), h = rows.At(oh, r), w = columns.At(ow, s);
      if (d < 0 || d >= x.d || h < 0 || h >= x.h || w < 0 || w >= x.w) continue;
      f(Tap{(q * weight.h + r) * weight.w + s, static_cast<size_t>(i), x.At(n, c_in, d, h, w),
            weight.At(k, c, q, r, s)});
    }
  }
}

Vector SumOverChannels(const Shape& y, const Vector& dy) {
  Vector sums(static_cast<size_t>(y.c()));
  for (size_t i = 0; i < dy.size(); ++i) {
    sums[i / static_cast<size_t>(y.positions()) % sums.size()] += dy[i];
  }
  return sums;
}

Values ConvolutionForward(const StepSignature& signature, const Convolution& layer,
                          const Values& given) {
  const Shape& out = signature.Spec(Y()).shape;
  Vector y(static_cast<size_t>(out.elements()));
  if (given.contains(Param(1)) && signature.Has(Param(1))) {
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = given.at(
          Param(1))[i / static_cast<size_t>(out.positions()) % static_cast<size_t>(out.c())];
    }
  }
  const Vector& x = given.at(X());
  const Vector& weight = given.at(Param(0));
  ForEachTap(layer, signature.Spec(X()).shape, out, signature.Spec(Param(0)).shape,
             [&](const Tap& t) { y[t.y] += x[t.x] * weight[t.weight]; });
  return {{Y(), y}};
}

Values RunConvolution(const StepSignature& signature, const Convolution& layer,
                      const Values& given) {
  if (signature.phase == Phase::kForward) return ConvolutionForward(signature, layer, given);
  const Vector& dy = given.at(Dy());
  const Shape& out = signature.Spec(Dy()).shape;
  if (signature.phase == Phase::kBackwardData) {
    const TensorSpec& in = signature.Spec(Dx());
    Vector dx(static_cast<size_t>(in.elements()));
    const Vector& weight = given.at(Param(0));
    ForEachTap(layer, in.shape, out, signature.Spec(Param(0)).shape,
               [&](const Tap& t) { dx[t.x] += dy[t.y] * weight[t.weight]; });
    return {{Dx(), dx}};
  }
  const TensorSpec& weight = signature.Spec(ParamGrad(0));
  Vector dweight(static_cast<size_t>(weight.elements()));
  const Vector& x = given.at(X());
  ForEachTap(layer, signature.Spec(X()).shape, out, weight.shape,
             [&](const Tap& t) { dweight[t.weight] += dy[t.y] * x[t.x]; });
  Values result = {{ParamGrad(0), dweight}};
  if (signature.Has(ParamGrad(1))) result[ParamGrad(1)] = SumOverChannels(out, dy);
  return result;
}

// Pooling as a depthwise window: kernel, stride, padding, dilation; one channel of y per channel of
// x.
template <typename Pool>
Convolution WindowOf(const Pool& pool, const Shape& x) {
  return {.out_channels = x.c(),
          .kernel = pool.kernel,
          .stride = pool.stride,
          .padding = pool.padding,
          .dilation = pool.dilation,
          .groups = x.c()};
}
Convolution AverageWindow(const StepSignature& signature, const Shape& x) {
  const AveragePool* const pool = signature.layer.As<AveragePool>();
  if (pool != nullptr) return WindowOf(*pool, x);
  return {.out_channels = x.c(), .kernel = Extents::Of(x.spatial()), .groups = x.c()};
}

Shape WindowShape(const Convolution& window, const Shape& x) {
  return SpatialShape(window.out_channels, 1, window.kernel.Along(x.spatial_axes()).values());
}

// The number of elements in each window's mean.
Vector WindowSizes(const StepSignature& signature, const Convolution& window, const Shape& in,
                   const Shape& out) {
  const AveragePool* layer = signature.layer.As<AveragePool>();
  const bool count_padding = layer == nullptr || layer->count_padding;
  Vector sizes(static_cast<size_t>(out.elements()));
  if (!count_padding) {
    ForEachTap(window, in, out, WindowShape(window, in), [&](const Tap& t) { ++sizes[t.y]; });
    return sizes;
  }
  // The elements of a window that are in the padded image along one axis, at this position.
  const auto covered = [](int64_t position, const Along& along, int64_t size) {
    int64_t count = 0;
    for (int64_t k = 0; k < along.kernel; ++k)
      count += along.At(position, k) < size + along.padding ? 1 : 0;
    return count;
  };
  const int axes = in.spatial_axes();
  for (size_t i = 0; i < sizes.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t count = 1;
    for (int from_last = 0; from_last < axes; ++from_last) {
      const int axis = out.rank() - 1 - from_last;
      count *= covered(rest % out[axis], Along(window, axes, from_last), in[axis]);
      rest /= out[axis];
    }
    sizes[i] = static_cast<double>(count);
  }
  return sizes;
}

}  // namespace

Values ReferenceConvolution(const StepSignature& signature, const Values& given) {
  return RunConvolution(signature, *signature.layer.As<Convolution>(), given);
}

// The convolution's steps, whose dy is dz.
Values ReferenceFusedConvolution(const StepSignature& signature, const Values& given) {
  if (signature.phase == Phase::kBackwardActivation) {
    const Vector& y = given.at(Y());
    Vector dz = given.at(Dy());
    for (size_t i = 0; i < dz.size(); ++i) dz[i] = y[i] > 0 ? dz[i] : 0;
    Values result = {{Dz(), dz}};
    if (signature.Has(ParamGrad(1)))
      result[ParamGrad(1)] = SumOverChannels(signature.Spec(Dz()).shape, dz);
    return result;
  }
  StepSignature linear = signature;
  Values values = given;
  for (OperandSpec& operand : linear.operands) {
    if (operand.operand != Dz()) continue;
    operand.operand = Dy();
    values[Dy()] = given.at(Dz());
  }
  const Convolution& layer = signature.layer.As<FusedConvolution>()->convolution;
  Values result = RunConvolution(linear, layer, values);
  if (signature.phase == Phase::kForward) {
    for (double& y : result.at(Y())) y = std::max(0.0, y);
  }
  return result;
}

Values ReferenceResidualConvolution(const StepSignature& signature, const Values& given) {
  const Convolution layer = signature.layer.As<ResidualConvolution>()->convolution();
  Values result = RunConvolution(signature, layer, given);
  if (signature.phase != Phase::kForward) return result;
  Vector& y = result.at(Y());
  for (size_t i = 0; i < y.size(); ++i) y[i] += given.at(X(1))[i];
  return result;
}

// Follows the definition instead of the gradient of a convolution: every tap from y to x adds one
// element of x, times one of the kernel, to y.
Values ReferenceTransposedConvolution(const StepSignature& signature, const Values& given) {
  const auto& layer = *signature.layer.As<TransposedConvolution>();
  const Phase phase = signature.phase;
  const bool forward = phase == Phase::kForward;
  const Shape& small = signature.Spec(phase == Phase::kBackwardData ? Dx() : X()).shape;
  const Shape& large = signature.Spec(forward ? Y() : Dy()).shape;
  const Operand weights = phase == Phase::kBackwardParams ? ParamGrad(0) : Param(0);
  const Shape& weight = signature.Spec(weights).shape;
  const auto for_each = [&](auto f) {
    ForEachTap(layer.Transposed(small.c()), large, small, weight, f);
  };
  if (forward) {
    Vector y(static_cast<size_t>(large.elements()));
    for_each([&](const Tap& t) { y[t.x] += given.at(X())[t.y] * given.at(weights)[t.weight]; });
    const size_t plane = static_cast<size_t>(large.positions());
    for (size_t i = 0; signature.Has(Param(1)) && i < y.size(); ++i) {
      y[i] += given.at(Param(1))[i / plane % static_cast<size_t>(large.c())];
    }
    return {{Y(), y}};
  }
  const Vector& dy = given.at(Dy());
  if (phase == Phase::kBackwardData) {
    Vector dx(static_cast<size_t>(small.elements()));
    for_each([&](const Tap& t) { dx[t.y] += dy[t.x] * given.at(weights)[t.weight]; });
    return {{Dx(), dx}};
  }
  Vector dweight(static_cast<size_t>(weight.elements()));
  for_each([&](const Tap& t) { dweight[t.weight] += dy[t.x] * given.at(X())[t.y]; });
  Values result = {{ParamGrad(0), dweight}};
  if (signature.Has(ParamGrad(1))) result[ParamGrad(1)] = SumOverChannels(large, dy);
  return result;
}

Values ReferenceFullyConnected(const StepSignature& signature, const Values& given) {
  const Operand image = signature.phase == Phase::kBackwardData ? Dx() : X();
  const Operand result = signature.phase == Phase::kForward ? Y() : Dy();
  const Shape& x = signature.Spec(image).shape;
  return RunConvolution(
      signature,
      {.out_channels = signature.Spec(result).shape.c(), .kernel = Extents::Of(x.spatial())},
      given);
}

Pooled MaxPooled(const MaxPool& pool, const Shape& in, const Shape& out, const Vector& x) {
  const Convolution window = WindowOf(pool, in);
  Pooled pooled = {Vector(static_cast<size_t>(out.elements())),
                   Vector(static_cast<size_t>(out.elements()), -1)};
  ForEachTap(window, in, out, WindowShape(window, in), [&](const Tap& t) {
    double& best = pooled.y[t.y];
    const bool wins = std::isnan(x[t.x]) ? !std::isnan(best) : x[t.x] > best;
    if (pooled.index[t.y] >= 0 && !wins) return;
    best = x[t.x];
    pooled.index[t.y] = static_cast<double>(t.in_window);
  });
  return pooled;
}

Vector MaxPoolGradient(const MaxPool& pool, const Shape& in, const Shape& out, const Vector& dy,
                       const Vector& index) {
  const Convolution window = WindowOf(pool, in);
  Vector dx(static_cast<size_t>(in.elements()));
  ForEachTap(window, in, out, WindowShape(window, in), [&](const Tap& t) {
    if (index[t.y] == static_cast<double>(t.in_window)) dx[t.x] += dy[t.y];
  });
  return dx;
}

std::string MaximumFailure(const MaxPool& pool, const Shape& in, const Shape& out, const Vector& x,
                           const Pooled& got, double tolerance) {
  const Convolution window = WindowOf(pool, in);
  std::string failure;
  Vector at(got.y.size(), std::nan(""));
  ForEachTap(window, in, out, WindowShape(window, in), [&](const Tap& t) {
    if (got.index[t.y] == static_cast<double>(t.in_window)) at[t.y] = x[t.x];
  });
  for (size_t i = 0; i < at.size(); ++i) {
    const bool stops = got.index[i] == kNotPositive;
    if (stops ? got.y[i] == 0 : std::abs(at[i] - got.y[i]) <= tolerance) continue;
    return absl::StrCat("index ", got.index[i], " of output ", i, ", which is ", got.y[i]);
  }
  return "";
}

Values ReferenceMaxPool(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const MaxPool& pool = *signature.layer.As<MaxPool>();
  const Shape& in = signature.Spec(forward ? X() : Dx()).shape;
  const Shape& out = signature.Spec(forward ? Y() : Dy()).shape;
  if (!forward) return {{Dx(), MaxPoolGradient(pool, in, out, given.at(Dy()), given.at(Saved(0)))}};
  const Pooled pooled = MaxPooled(pool, in, out, given.at(X()));
  Values result = {{Y(), pooled.y}};
  if (signature.Has(Saved(0))) result[Saved(0)] = pooled.index;
  return result;
}

Values ReferenceAveragePool(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Shape& in = signature.Spec(forward ? X() : Dx()).shape;
  const Shape& out = signature.Spec(forward ? Y() : Dy()).shape;
  const Convolution window = AverageWindow(signature, in);
  const Vector sizes = WindowSizes(signature, window, in, out);
  Vector result(static_cast<size_t>(forward ? out.elements() : in.elements()));
  ForEachTap(window, in, out, WindowShape(window, in), [&](const Tap& t) {
    if (forward) {
      result[t.y] += given.at(X())[t.x] / sizes[t.y];
    } else {
      result[t.x] += given.at(Dy())[t.y] / sizes[t.y];
    }
  });
  return {{forward ? Y() : Dx(), result}};
}

}  // namespace neap::testing
