#include "neap/layers/cuda/conv/position_convolution.h"

#include <string>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/matmul/matmul.h"

namespace neap::cuda {
namespace {

// The workspace that cuBLAS recommends on Hopper, for products with so many multiplications.
constexpr int64_t kBlasWorkspace = 32 * kMiB;
constexpr int64_t kWorthBlasWorkspace = int64_t{1} << 24;
constexpr std::string_view kWithWorkspace = "cublaslt-positions-32m";
constexpr std::string_view kWithout = "cublaslt-positions-0";

// Row-major {positions, channels} is column-major {channels, positions}; the weight is {in, out}.
MatmulShape ProductShapeOf(const ConvolutionProblem& p) {
  const int64_t in = p.x.shape.c(), out = p.y.shape.c();
  const int64_t positions = p.x.shape.n() * p.x.shape.positions();
  if (p.phase == Phase::kForward) return {.transpose_a = true, .m = out, .n = positions, .k = in};
  if (p.phase == Phase::kBackwardData) return {.m = in, .n = positions, .k = out};
  return {.transpose_b = true, .m = in, .n = out, .k = positions};
}

class PositionPlan final : public ConvolutionPlan {
 public:
  PositionPlan(SharedRuntime runtime, const ConvolutionProblem& problem,
               std::unique_ptr<Matmul> matmul)
      : runtime_(std::move(runtime)), problem_(problem), matmul_(std::move(matmul)) {}

  absl::Status Execute(const ConvolutionPointers& p, void* workspace) override {
    if (problem_.phase == Phase::kForward)
      return matmul_->Run({.a = p.weight, .b = p.x, .c = p.y, .workspace = workspace});
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

}  // namespace

std::vector<Engine> PositionEngines(const ConvolutionProblem& p) {
  const Shape& weight = p.weight.shape;
  const bool applies = p.axes() == 2 && p.x.shape.h() == 1 && p.x.shape.w() > 1 &&
                       p.x.layout == Layout::kChannelsLast && weight.positions() == 1 &&
                       weight.c() == p.x.shape.c() && p.stride == Extents(1) &&
                       p.padding == Extents(0) && !p.half_accumulation;
  if (!applies) return {};
  const bool uses_tensor_cores = p.x.dtype != DType::kFp32;
  const MatmulShape shape = ProductShapeOf(p);
  std::vector<Engine> engines;
  if (shape.m * shape.n * shape.k >= kWorthBlasWorkspace) {
    engines.push_back({.id = std::string(kWithWorkspace),
                       .workspace_bytes = kBlasWorkspace,
                       .uses_tensor_cores = uses_tensor_cores});
  }
  engines.push_back({.id = std::string(kWithout), .uses_tensor_cores = uses_tensor_cores});
  return engines;
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildPosition(const SharedRuntime& runtime,
                                                               const ConvolutionProblem& problem,
                                                               std::string_view engine) {
  const DType dtype = problem.x.dtype;
  const MatmulTypes types = problem.phase == Phase::kBackwardParams
                                ? MatmulTypes(problem.y.dtype, problem.weight.dtype)
                                : MatmulTypes(dtype);
  const MatmulOptions options = {.workspace_bytes = engine == kWithWorkspace ? kBlasWorkspace : 0};
  ASSIGN_OR_RETURN(std::unique_ptr<Matmul> matmul,
                   Matmul::Build(*runtime, ProductShapeOf(problem), types, options));
  return std::make_unique<PositionPlan>(runtime, problem, std::move(matmul));
}

}  // namespace neap::cuda
