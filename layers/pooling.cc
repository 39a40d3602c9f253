#include "neap/layers/pooling.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/copy_steps.h"

namespace neap {
namespace {

using namespace operands;

constexpr int64_t kMaxByteIndexedWindow = 256;
constexpr int64_t kMaxElements = std::numeric_limits<int32_t>::max();

template <typename Pool>
Window WindowOf(const Pool& pool) {
  return {pool.kernel, pool.stride, pool.padding, pool.dilation};
}

absl::Status CheckPoolWindow(const Window& window, int axes) {
  const std::string kernel = window.kernel.Along(axes).ToString();
  const std::string dilated =
      window.dilation.AllAre(1)
          ? ""
          : absl::StrCat(" with dilation ", window.dilation.Along(axes).ToString());
  for (int i = 0; i < axes; ++i) {
    if (window.Reach(i) <= kMaxWindowExtent) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "kernel ", kernel, dilated, " reaches over more than ", kMaxWindowExtent, " pixels"));
  }
  if (window.kernel.Along(axes).product() > kMaxElements) {  // indices and counts have 32 bits
    return absl::InvalidArgumentError(
        absl::StrCat("kernel ", kernel, " has more than ", kMaxElements, " elements"));
  }
  for (int i = 0; i < axes; ++i) {
    if (2 * window.padding[i] <= window.Reach(i)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("padding ", window.padding.Along(axes).ToString(),
                     " is more than half the kernel ", kernel, dilated));
  }
  return absl::OkStatus();
}

// An error if a window holds padding only.
absl::Status CheckPixels(const TensorSpec& x, const Window& window, const Extents& out) {
  const int axes = x.shape.spatial_axes();
  for (int i = 0; i < axes; ++i) {
    if (AllHoldPixels(x.shape[2 + i], out[i], window.stride[i], window.padding[i],
                      window.dilation[i]))
      continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a window of kernel ", window.kernel.Along(axes).ToString(), " with dilation ",
        window.dilation.Along(axes).ToString(), " and padding ",
        window.padding.Along(axes).ToString(), " holds no pixel of the ",
        std::string(NameOfSpatial(axes)), " ", Extents::Of(x.shape.spatial()).ToString()));
  }
  return absl::OkStatus();
}

// An error if the window is larger than the padded image.
absl::StatusOr<Extents> PositionsOf(const TensorSpec& x, const Window& window, bool ceil_mode) {
  std::vector<int64_t> rounded_up;
  for (int i = 0; i < x.shape.spatial_axes(); ++i) {
    rounded_up.push_back(CeilPositions(x.shape[2 + i], window.Reach(i), window.stride[i],
                                       window.padding[i], window.padding[i]));
  }
  const bool fits = std::count(rounded_up.begin(), rounded_up.end(), 0) == 0;
  return ceil_mode && fits ? Extents::Of(rounded_up) : WindowOutput(x, window);
}

absl::StatusOr<TensorSpec> PooledOutput(const LayerContext& context, const Window& window,
                                        bool ceil_mode, bool may_hold_padding_only) {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  RETURN_IF_ERROR(CheckWindow(window, x.shape.spatial_axes()));
  RETURN_IF_ERROR(CheckPoolWindow(window, x.shape.spatial_axes()));
  ASSIGN_OR_RETURN(const Extents out, PositionsOf(x, window, ceil_mode));
  if (!may_hold_padding_only) RETURN_IF_ERROR(CheckPixels(x, window, out));
  return WithShape(x, SpatialShape(x.shape.n(), x.shape.c(), out.values()));
}

// The number of elements of a window over such a tensor.
int64_t ElementsIn(const Extents& kernel, const TensorSpec& tensor) {
  return kernel.Along(tensor.shape.spatial_axes()).product();
}

// `text`, and what few poolings have only if this one does.
template <typename Pool>
std::string WithRareFields(std::string text, const Pool& pool) {
  if (pool.ceil_mode) absl::StrAppend(&text, " ", ParameterText({{"ceil_mode", true}}));
  if (pool.dilation != Extents(1))
    absl::StrAppend(&text, " ", ParameterText({{"dilation", pool.dilation}}));
  return text;
}

// Sum of floor((a * i + b) / m) over i from 0 to n - 1, modulo 2^64, in logarithmic time: the
// number of points below a line, in which axes change places as in Euclid's algorithm. `n` and `m`
// are below 2^32.
uint64_t FloorSum(uint64_t n, uint64_t m, uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  while (n > 0) {
    sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
    const uint64_t last = a % m * n + b % m;
    a = std::exchange(m, a % m);
    n = last / a;
    b = last % a;
  }
  return sum;
}

}  // namespace

// A window that begins in the image holds that pixel. If the image has fewer pixels than
// `dilation`, a window that begins before the image holds at most its first element that is not
// before the image. In window i it is (first + i * stride) modulo `dilation`; the difference of the
// sums is the number of windows in which that is `size` or more.
bool AllHoldPixels(int64_t size, int64_t positions, int64_t stride, int64_t padding,
                   int64_t dilation) {
  if (dilation <= size) return true;
  const int64_t windows = std::min(positions, (padding + stride - 1) / stride);
  const auto before = static_cast<uint64_t>(std::min(windows, dilation));  // then they repeat
  const auto period = static_cast<uint64_t>(dilation), step = static_cast<uint64_t>(stride);
  const uint64_t first = (period - static_cast<uint64_t>(padding) % period) % period;
  return FloorSum(before, period, step, first + period - static_cast<uint64_t>(size)) ==
         FloorSum(before, period, step, first);
}

std::string MaxPool::Parameters() const {
  return WithRareFields(
      ParameterText({{"kernel", kernel}, {"stride", stride}, {"padding", padding}}), *this);
}

absl::StatusOr<LayerSpec> MaxPool::Specify(const LayerContext& context) const {
  ASSIGN_OR_RETURN(TensorSpec y, PooledOutput(context, WindowOf(*this), ceil_mode, false));
  const double outputs = static_cast<double>(y.elements());
  const int64_t elements = ElementsIn(kernel, y);
  LayerSpec spec = {.output = y, .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X()}, .writes = {Y()}, .flops = outputs * static_cast<double>(elements)});
  if (context.mode == Mode::kInference) return spec;

  TensorSpec index = y;
  index.dtype = elements <= kMaxByteIndexedWindow ? DType::kUInt8 : DType::kInt32;
  spec.saved.push_back({.name = "index", .tensor = std::move(index)});
  spec.steps[0].writes.push_back(Saved(0));
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Dy(), Saved(0)},
                        .writes = {Dx()},
                        .flops = outputs});
  return spec;
}

std::string AveragePool::Parameters() const {
  return WithRareFields(ParameterText({{"kernel", kernel},
                                       {"stride", stride},
                                       {"padding", padding},
                                       {"count_padding", count_padding}}),
                        *this);
}

absl::StatusOr<LayerSpec> AveragePool::Specify(const LayerContext& context) const {
  ASSIGN_OR_RETURN(TensorSpec y, PooledOutput(context, WindowOf(*this), ceil_mode, count_padding));
  const double flops =
      static_cast<double>(y.elements()) * static_cast<double>(ElementsIn(kernel, y));
  return CopySteps(std::move(y), context.mode, flops);
}

absl::StatusOr<LayerSpec> GlobalAveragePool::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const std::vector<int64_t> ones(x.shape.spatial().size(), 1);
  LayerSpec spec = CopySteps(WithShape(x, SpatialShape(x.shape.n(), x.shape.c(), ones)),
                             context.mode, static_cast<double>(x.elements()));
  if (context.mode == Mode::kTraining) spec.steps[1].accumulates_natively = {Slot::kInputGrad};
  return spec;
}

}  // namespace neap
