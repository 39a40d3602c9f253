#include "neap/layers/pooling.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/copy_steps.h"

namespace neap {
namespace {

using namespace operands;

constexpr int64_t kMaxByteIndexedWindow = 256;
constexpr int64_t kMaxElements = std::numeric_limits<int32_t>::max();

template <typename Pool>
Window WindowOf(const Pool& pool) {
  return {pool.kernel, pool.stride, pool.padding, pool.dilation};
}

absl::Status CheckPoolWindow(const Window& window) {
  const auto& [kernel, stride, padding, dilation] = window;
  const Extent2d reach = window.reach();
  const std::string dilated =
      dilation == Extent2d(1) ? "" : absl::StrCat(" with dilation ", dilation.h, "x", dilation.w);
  if (std::max(reach.h, reach.w) > kMaxWindowExtent) {
    return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel.h, "x", kernel.w, dilated,
                                                   " reaches over more than ", kMaxWindowExtent,
                                                   " pixels"));
  }
  if (kernel.h > kMaxElements / kernel.w) {  // indices and counts have 32 bits
    return absl::InvalidArgumentError(absl::StrCat("kernel ", kernel.h, "x", kernel.w,
                                                   " has more than ", kMaxElements, " elements"));
  }
  if (2 * padding.h <= reach.h && 2 * padding.w <= reach.w) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("padding ", padding.h, "x", padding.w,
                                                 " is more than half the kernel ", kernel.h, "x",
                                                 kernel.w, dilated));
}

// An error if a window holds padding only.
absl::Status CheckPixels(const TensorSpec& x, const Window& window, Extent2d out) {
  const auto& [kernel, stride, padding, dilation] = window;
  if (AllHoldPixels(x.shape.h(), out.h, stride.h, padding.h, dilation.h) &&
      AllHoldPixels(x.shape.w(), out.w, stride.w, padding.w, dilation.w)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a window of kernel ", kernel.h, "x", kernel.w, " with dilation ", dilation.h,
                   "x", dilation.w, " and padding ", padding.h, "x", padding.w,
                   " holds no pixel of the image ", x.shape.h(), "x", x.shape.w()));
}

// An error if the window is larger than the padded image.
absl::StatusOr<Extent2d> PositionsOf(const TensorSpec& x, const Window& window, bool ceil_mode) {
  const Extent2d reach = window.reach();
  const auto& [kernel, stride, padding, dilation] = window;
  const Extent2d rounded_up(CeilPositions(x.shape.h(), reach.h, stride.h, padding.h, padding.h),
                            CeilPositions(x.shape.w(), reach.w, stride.w, padding.w, padding.w));
  if (ceil_mode && rounded_up.h > 0 && rounded_up.w > 0) return rounded_up;
  return WindowOutput(x, window);
}

absl::StatusOr<TensorSpec> PooledOutput(const LayerContext& context, const Window& window,
                                        bool ceil_mode, bool may_hold_padding_only) {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  RETURN_IF_ERROR(CheckWindow(window));
  RETURN_IF_ERROR(CheckPoolWindow(window));
  const TensorSpec& x = context.inputs[0];
  ASSIGN_OR_RETURN(const Extent2d out, PositionsOf(x, window, ceil_mode));
  if (!may_hold_padding_only) RETURN_IF_ERROR(CheckPixels(x, window, out));
  return WithShape(x, {x.shape.n(), x.shape.c(), out.h, out.w});
}

// `text`, and what few poolings have only if this one does.
template <typename Pool>
std::string WithRareFields(std::string text, const Pool& pool) {
  if (pool.ceil_mode) absl::StrAppend(&text, " ", ParameterText({{"ceil_mode", true}}));
  if (pool.dilation != Extent2d(1))
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

// A window that begins in the image holds that pixel. Of one that begins before the image, only the
// first element that is not before it can be in it if the image has fewer pixels than `dilation`.
// In window i it is (first + i * stride) modulo `dilation`; the difference of the sums is the
// number of windows in which that is `size` or more.
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
  LayerSpec spec = {.output = y, .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X()}, .writes = {Y()}, .flops = outputs * Product({kernel.h, kernel.w})});
  if (context.mode == Mode::kInference) return spec;

  TensorSpec index = y;
  index.dtype = kernel.h * kernel.w <= kMaxByteIndexedWindow ? DType::kUInt8 : DType::kInt32;
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
  const double flops = static_cast<double>(y.elements()) * Product({kernel.h, kernel.w});
  return CopySteps(std::move(y), context.mode, flops);
}

absl::StatusOr<LayerSpec> GlobalAveragePool::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  LayerSpec spec = CopySteps(WithShape(x, {x.shape.n(), x.shape.c(), 1, 1}), context.mode,
                             static_cast<double>(x.elements()));
  if (context.mode == Mode::kTraining) spec.steps[1].accumulates_natively = {Slot::kInputGrad};
  return spec;
}

}  // namespace neap
