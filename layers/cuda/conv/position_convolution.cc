#include "neap/layers/cuda/conv/position_convolution.h"

#include <algorithm>
#include <string>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/conv/bias_relu_engines.h"
#include "neap/layers/cuda/matmul/biased_matmul.h"
#include "neap/layers/cuda/matmul/matmul.h"

namespace neap::cuda {
namespace {

constexpr std::string_view kWithWorkspace = "cublaslt-positions-32m";
constexpr std::string_view kWithout = "cublaslt-positions-0";

// Row-major {positions, channels} is column-major {channels, positions}; the weight is {in, out}.
// Examples of a part of the batch begin at any position.
MatmulShape ProductShapeOf(const ConvolutionProblem& p) {
  const int64_t in = p.x.shape.c(), out = p.y.shape.c();
  const int64_t positions = p.x.shape.n() * p.x.shape.positions();
  const uint32_t of_x = AlignmentOf(in * SizeOf(p.x.dtype));
  const uint32_t of_y = AlignmentOf(out * SizeOf(p.y.dtype));
  if (p.phase == Phase::kForward) {
    return {.transpose_a = true,
            .m = out,
            .n = positions,
            .k = in,
            .alignment = of_x,
            .alignment_c = of_y};
  }
  if (p.phase == Phase::kBackwardData)
    return {.m = in, .n = positions, .k = out, .alignment = of_y, .alignment_c = of_x};
  return {
      .transpose_b = true, .m = in, .n = out, .k = positions, .alignment = std::min(of_x, of_y)};
}

class PositionPlan final : public ConvolutionPlan {
 public:
  PositionPlan(SharedRuntime runtime, const ConvolutionProblem& problem,
               std::unique_ptr<Matmul> matmul)
      : runtime_(std::move(runtime)), problem_(problem), matmul_(std::move(matmul)) {}

  absl::Status Execute(const ConvolutionPointers& p, void* workspace) override {
    if (problem_.phase == Phase::kForward)
      return matmul_->Run(
          {.a = p.weight, .b = p.x, .c = p.y, .workspace = workspace, .addend = p.addend});
    if (problem_.phase == Phase::kBackwardData)
      return matmul_->Run({.a = p.weight, .b = p.y, .c = p.x, .workspace = workspace});
    return matmul_->Run({.a = p.x,
                         .b = p.y,
                         .c = p.weight,
                         .workspace = workspace,
                         .addend = problem_.accumulate ? p.weight : nullptr});
  }

 private:
  SharedRuntime runtime_;
  ConvolutionProblem problem_;
  std::unique_ptr<Matmul> matmul_;
};

// Forward with a bias. The workspace is [bias in the type of y, the product's).
class BiasedPositionPlan final : public ConvolutionPlan {
 public:
  BiasedPositionPlan(SharedRuntime runtime, const ConvolutionProblem& problem)
      : runtime_(std::move(runtime)), bias_bytes_(NarrowBiasBytes(problem)) {}

  absl::Status Build(const ConvolutionProblem& problem, const MatmulOptions& options) {
    return matmul_.Build(*runtime_, ProductShapeOf(problem), problem.x.dtype, options);
  }

  absl::Status Execute(const ConvolutionPointers& p, void* workspace) override {
    const MatmulPointers pointers = {.a = p.weight,
                                     .b = p.x,
                                     .c = p.y,
                                     .workspace = static_cast<std::byte*>(workspace) + bias_bytes_,
                                     .addend = p.addend};
    return matmul_.RunRounding(pointers, static_cast<const float*>(p.bias), workspace,
                               runtime_->stream);
  }
  bool AddsBias() const override { return true; }

 private:
  SharedRuntime runtime_;
  int64_t bias_bytes_;
  BiasedMatmul matmul_;
};

}  // namespace

std::vector<Engine> PositionEngines(const ConvolutionProblem& p) {
  const Shape& weight = p.weight.shape;
  const bool applies = p.x.layout == Layout::kChannelsLast && weight.positions() == 1 &&
                       weight.c() == p.x.shape.c() && p.stride.AllAre(1) && p.padding.AllAre(0) &&
                       !p.half_accumulation;
  if (!applies) return {};
  const bool uses_tensor_cores = p.x.dtype != DType::kFp32;
  const int64_t bias_bytes = p.bias ? NarrowBiasBytes(p) : 0;
  std::vector<Engine> engines;
  if (const int64_t blas_bytes = BlasWorkspaceOf(ProductShapeOf(p)); blas_bytes > 0) {
    engines.push_back({.id = std::string(kWithWorkspace),
                       .workspace_bytes = bias_bytes + blas_bytes,
                       .uses_tensor_cores = uses_tensor_cores});
  }
  engines.push_back({.id = std::string(kWithout),
                     .workspace_bytes = bias_bytes,
                     .uses_tensor_cores = uses_tensor_cores});
  return engines;
}

bool PositionIsFirstChoice(const ConvolutionProblem& p) {
  const bool is_sequence = p.axes() == 2 && p.x.shape.h() == 1 && p.x.shape.w() > 1;
  return is_sequence || p.bias;
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildPosition(const SharedRuntime& runtime,
                                                               const ConvolutionProblem& problem,
                                                               std::string_view engine) {
  const MatmulOptions options = {.workspace_bytes = engine == kWithWorkspace ? kBlasWorkspace : 0};
  if (problem.bias) {
    auto plan = std::make_unique<BiasedPositionPlan>(runtime, problem);
    RETURN_IF_ERROR(plan->Build(problem, options));
    return plan;
  }
  const MatmulTypes types = problem.phase == Phase::kBackwardParams
                                ? MatmulTypes(problem.y.dtype, problem.weight.dtype)
                                : MatmulTypes(problem.x.dtype);
  ASSIGN_OR_RETURN(std::unique_ptr<Matmul> matmul,
                   Matmul::Build(*runtime, ProductShapeOf(problem), types, options));
  return std::make_unique<PositionPlan>(runtime, problem, std::move(matmul));
}

}  // namespace neap::cuda
