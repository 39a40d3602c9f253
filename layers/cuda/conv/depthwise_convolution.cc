#include "neap/layers/cuda/conv/depthwise_convolution.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/cuda/kernels/depthwise.h"

namespace neap::cuda {
namespace {

constexpr int64_t kMaxChannels = 65535;  // one block for each in a dimension of the grid

kernels::DepthwiseShape ShapeOf(const ConvolutionProblem& p) {
  return {.n = p.x.shape.n(),
          .channels = p.x.shape.c(),
          .h = p.x.shape.h(),
          .w = p.x.shape.w(),
          .out_h = p.y.shape.h(),
          .out_w = p.y.shape.w(),
          .kernel = static_cast<int>(p.weight.shape.h()),
          .stride = static_cast<int>(p.stride.h()),
          .padding_h = p.padding.h(),
          .padding_w = p.padding.w(),
          .channels_last = p.x.layout == Layout::kChannelsLast};
}

bool Applies(const ConvolutionProblem& p) {
  const Shape &x = p.x.shape, &y = p.y.shape, &weight = p.weight.shape;
  const bool depthwise = weight.c() == 1 && x.c() > 1 && y.c() == x.c() && x.c() <= kMaxChannels;
  const int64_t side = weight.h();
  const bool window = side == weight.w() && (side == 3 || side == 5 || side == 7) &&
                      p.stride.h() == p.stride.w() && (p.stride.h() == 1 || p.stride.h() == 2) &&
                      p.dilation == Extents(1) && p.padding.h() < weight.h() &&
                      p.padding.w() < weight.w();
  const int64_t most_pixels = x.n() * (x.h() + weight.h()) * (x.w() + weight.w());  // also of y
  const bool pixels_fit = most_pixels <= std::numeric_limits<int32_t>::max();
  const bool types = p.phase == Phase::kBackwardParams
                         ? ElementOf(p.weight.dtype) == kernels::Element::kFp32
                         : ElementOf(p.weight.dtype) == ElementOf(p.x.dtype);
  return p.axes() == 2 && depthwise && window && pixels_fit && types && !p.half_accumulation;
}

class DepthwisePlan final : public ConvolutionPlan {
 public:
  DepthwisePlan(SharedRuntime runtime, const ConvolutionProblem& problem)
      : runtime_(std::move(runtime)), problem_(problem), shape_(ShapeOf(problem)) {}

  bool AddsAddend() const override { return shape_.stride == 1; }
  absl::Status Execute(const ConvolutionPointers& p, void* workspace) override {
    return CudaStatus(Launch(p, workspace), "depthwise convolution");
  }

 private:
  cudaError_t Launch(const ConvolutionPointers& p, void* workspace) const {
    const kernels::Element element = ElementOf(problem_.x.dtype);
    const kernels::Array x = {p.x, element}, y = {p.y, element}, weight = {p.weight, element};
    if (problem_.phase == Phase::kForward)
      return kernels::DepthwiseForward(shape_, x, weight, y, runtime_->stream);
    if (problem_.phase == Phase::kBackwardData) {
      const kernels::ConstArray addend = {AddsAddend() ? p.addend : nullptr, element};
      return kernels::DepthwiseBackwardData(shape_, y, weight, addend, x, runtime_->stream);
    }
    return kernels::DepthwiseWeightGradient(shape_, x, y, static_cast<float*>(p.weight),
                                            problem_.accumulate, workspace, runtime_->stream);
  }

  SharedRuntime runtime_;
  ConvolutionProblem problem_;
  kernels::DepthwiseShape shape_;
};

}  // namespace

std::optional<Engine> DepthwiseEngine(const ConvolutionProblem& problem) {
  if (!Applies(problem)) return std::nullopt;
  const bool gradient = problem.phase == Phase::kBackwardParams;
  return Engine{.id = std::string(kDepthwiseEngine),
                .workspace_bytes = gradient ? kernels::DepthwiseScratchBytes(ShapeOf(problem)) : 0};
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildDepthwise(const SharedRuntime& runtime,
                                                                const ConvolutionProblem& problem) {
  return std::make_unique<DepthwisePlan>(runtime, problem);
}

}  // namespace neap::cuda
