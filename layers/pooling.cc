#include "neap/layers/pooling.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/copy_steps.h"

namespace neap {
namespace {

using namespace operands;

constexpr int64_t kLargestByteIndexedWindow = 256;

absl::Status CheckPadding(Extent2d kernel, Extent2d padding) {
  if (2 * padding.h <= kernel.h && 2 * padding.w <= kernel.w) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("padding ", padding.h, "x", padding.w,
                                                 " is more than half the kernel ", kernel.h, "x",
                                                 kernel.w));
}

// An error if the window is larger than the padded image.
absl::StatusOr<Extent2d> PositionsOf(const TensorSpec& x, const Window& window, bool ceil_mode) {
  const auto& [kernel, stride, padding, dilation] = window;
  const Extent2d rounded_up(CeilPositions(x.shape.h(), kernel.h, stride.h, padding.h, padding.h),
                            CeilPositions(x.shape.w(), kernel.w, stride.w, padding.w, padding.w));
  if (ceil_mode && rounded_up.h > 0 && rounded_up.w > 0) return rounded_up;
  return WindowOutput(x, window);
}

absl::StatusOr<TensorSpec> PooledOutput(const LayerContext& context, const Window& window,
                                        bool ceil_mode) {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  RETURN_IF_ERROR(CheckWindow(window));
  RETURN_IF_ERROR(CheckPadding(window.kernel, window.padding));
  const TensorSpec& x = context.inputs[0];
  ASSIGN_OR_RETURN(const Extent2d out, PositionsOf(x, window, ceil_mode));
  return WithShape(x, {x.shape.n(), x.shape.c(), out.h, out.w});
}

// `text`, and ceil_mode only if it is set.
std::string WithCeilMode(std::string text, bool ceil_mode) {
  if (ceil_mode) absl::StrAppend(&text, " ", ParameterText({{"ceil_mode", ceil_mode}}));
  return text;
}

}  // namespace

std::string MaxPool::Parameters() const {
  return WithCeilMode(ParameterText({{"kernel", kernel}, {"stride", stride}, {"padding", padding}}),
                      ceil_mode);
}

absl::StatusOr<LayerSpec> MaxPool::Specify(const LayerContext& context) const {
  ASSIGN_OR_RETURN(TensorSpec y, PooledOutput(context, {kernel, stride, padding}, ceil_mode));
  const double outputs = static_cast<double>(y.elements());
  LayerSpec spec = {.output = y, .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X()}, .writes = {Y()}, .flops = outputs * Product({kernel.h, kernel.w})});
  if (context.mode == Mode::kInference) return spec;

  TensorSpec index = y;
  index.dtype = kernel.h * kernel.w <= kLargestByteIndexedWindow ? DType::kUInt8 : DType::kInt32;
  spec.saved.push_back({.name = "index", .tensor = std::move(index)});
  spec.steps[0].writes.push_back(Saved(0));
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Dy(), Saved(0)},
                        .writes = {Dx()},
                        .flops = outputs});
  return spec;
}

std::string AveragePool::Parameters() const {
  return WithCeilMode(ParameterText({{"kernel", kernel},
                                     {"stride", stride},
                                     {"padding", padding},
                                     {"count_padding", count_padding}}),
                      ceil_mode);
}

absl::StatusOr<LayerSpec> AveragePool::Specify(const LayerContext& context) const {
  ASSIGN_OR_RETURN(TensorSpec y, PooledOutput(context, {kernel, stride, padding}, ceil_mode));
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
