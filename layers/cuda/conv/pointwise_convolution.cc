#include "neap/layers/cuda/conv/pointwise_convolution.h"

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/conv/image_parts.h"
#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/cuda/matmul/matmul.h"

namespace neap::cuda {
namespace {

constexpr int64_t kFewPixels = 128;  // with fewer, a tile is mostly empty

// The sizes that determine the products and the workspace.
struct Pointwise {
  int64_t images, in_channels, out_channels, pixels;  // pixels of y
  bool strided;
  int64_t parts;  // parts of the weight's gradient, and images per round

  int64_t last_round() const { return images % parts; }  // images of a shorter last round, or 0

  int64_t compact_bytes() const {
    return strided ? RoundUp(images * in_channels * pixels * 4, kWorkspaceAlignment) : 0;
  }
  int64_t weights() const { return in_channels * out_channels; }
};

Pointwise PointwiseOf(const ConvolutionProblem& p) {
  return {.images = p.x.shape.n(),
          .in_channels = p.x.shape.c(),
          .out_channels = p.y.shape.c(),
          .pixels = p.y.shape.positions(),
          .strided = p.stride.h() != 1 || p.stride.w() != 1,
          .parts = p.phase == Phase::kBackwardParams
                       ? ImageParts(p.x.shape.n(), p.x.shape.c(), p.y.shape.c())
                       : 1};
}

// Row-major {channels, pixels} of an image is column-major {pixels, channels}; the weight is {in,
// out}.
MatmulShape ShapeOf(Phase phase, const Pointwise& p) {
  const int64_t x = p.in_channels * p.pixels, y = p.out_channels * p.pixels;
  if (phase == Phase::kForward) {
    return {false, false, p.pixels, p.out_channels, p.in_channels, p.images, x, 0, y};
  }
  if (phase == Phase::kBackwardData) {
    return {false, true, p.pixels, p.in_channels, p.out_channels, p.images, y, 0, x};
  }
  // A later round begins where the one before it ends, which need not be aligned.
  const bool aligned = p.parts * x % 4 == 0 && p.parts * y % 4 == 0;
  return {true, false, p.in_channels, p.out_channels,    p.pixels, p.parts,
          x,    y,     p.weights(),   aligned ? 16U : 4U};
}

class PointwisePlan final : public ConvolutionPlan {
 public:
  PointwisePlan(SharedRuntime runtime, const ConvolutionProblem& problem,
                std::unique_ptr<Matmul> matmul, std::unique_ptr<Matmul> last)
      : runtime_(std::move(runtime)),
        problem_(problem),
        pointwise_(PointwiseOf(problem)),
        matmul_(std::move(matmul)),
        last_round_(std::move(last)) {}

  absl::Status Execute(const ConvolutionPointers& p, void* workspace) override {
    std::byte* const scratch = static_cast<std::byte*>(workspace);
    float* const x = static_cast<float*>(pointwise_.strided ? workspace : p.x);
    if (problem_.phase == Phase::kBackwardData) {
      RETURN_IF_ERROR(matmul_->Run({p.y, p.weight, x}));
      if (!pointwise_.strided) return absl::OkStatus();
      return CudaStatus(kernels::Spread(Pixels(), x, static_cast<float*>(p.x), runtime_->stream),
                        "1x1 convolution spread");
    }
    if (pointwise_.strided) {
      RETURN_IF_ERROR(
          CudaStatus(kernels::Gather(Pixels(), static_cast<const float*>(p.x), x, runtime_->stream),
                     "1x1 convolution gather"));
    }
    if (problem_.phase == Phase::kForward) return matmul_->Run({x, p.weight, p.y});
    return WeightGradient(x, static_cast<const float*>(p.y), scratch + pointwise_.compact_bytes(),
                          static_cast<float*>(p.weight));
  }

 private:
  kernels::PixelGrid Pixels() const {
    return {.planes = problem_.x.shape.n() * problem_.x.shape.c(),
            .h = problem_.x.shape.h(),
            .w = problem_.x.shape.w(),
            .out_h = problem_.y.shape.h(),
            .out_w = problem_.y.shape.w(),
            .stride_h = problem_.stride.h(),
            .stride_w = problem_.stride.w()};
  }

  absl::Status WeightGradient(const float* x, const float* dy, void* scratch,
                              float* dweight) const {
    const Pointwise& p = pointwise_;
    void* const partial = p.parts == 1 ? dweight : scratch;
    for (int64_t image = 0; image < p.images; image += p.parts) {
      const Matmul& round = image + p.parts <= p.images ? *matmul_ : *last_round_;
      RETURN_IF_ERROR(round.Run({.a = x + image * p.in_channels * p.pixels,
                                 .b = dy + image * p.out_channels * p.pixels,
                                 .c = partial,
                                 .addend = image != 0 ? partial : nullptr}));
    }
    if (p.parts == 1) return absl::OkStatus();
    return CudaStatus(kernels::SumParts(static_cast<const float*>(partial), p.parts, p.weights(),
                                        dweight, runtime_->stream),
                      "1x1 convolution sum of parts");
  }

  SharedRuntime runtime_;
  ConvolutionProblem problem_;
  Pointwise pointwise_;
  std::unique_ptr<Matmul> matmul_;
  std::unique_ptr<Matmul> last_round_;  // null if all rounds have the same size
};

}  // namespace

std::optional<Engine> PointwiseEngine(const ConvolutionProblem& p) {
  const Shape& weight = p.weight.shape;
  const bool applies = p.axes() == 2 && !p.accumulate && p.x.dtype == DType::kFp32 &&
                       p.x.layout == Layout::kChannelsFirst && weight.h() == 1 && weight.w() == 1 &&
                       weight.c() == p.x.shape.c() && p.padding == Extents(0);
  if (!applies) return std::nullopt;
  const Pointwise pointwise = PointwiseOf(p);
  const int64_t partial = pointwise.parts > 1 ? pointwise.parts * pointwise.weights() * 4 : 0;
  return Engine{.id = std::string(kPointwiseEngine),
                .workspace_bytes = pointwise.compact_bytes() + partial};
}

bool PointwiseIsFirstChoice(const ConvolutionProblem& p) {
  const Pointwise pointwise = PointwiseOf(p);
  if (p.phase == Phase::kBackwardData) return true;
  if (p.phase == Phase::kForward && pointwise.strided) return false;
  return pointwise.pixels >= kFewPixels;
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildPointwise(const SharedRuntime& runtime,
                                                                const ConvolutionProblem& problem) {
  const Pointwise pointwise = PointwiseOf(problem);
  MatmulShape shape = ShapeOf(problem.phase, pointwise);
  ASSIGN_OR_RETURN(std::unique_ptr<Matmul> matmul, Matmul::Build(*runtime, shape, DType::kFp32));
  std::unique_ptr<Matmul> last;
  if (const int64_t images = pointwise.last_round(); images > 0) {
    shape.batch = images;
    ASSIGN_OR_RETURN(last, Matmul::Build(*runtime, shape, DType::kFp32));
  }
  return std::make_unique<PointwisePlan>(runtime, problem, std::move(matmul), std::move(last));
}

}  // namespace neap::cuda
