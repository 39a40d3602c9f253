#include "neap/layers/cuda/conv/bias_relu_engines.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/conv/cudnn_engines.h"
#include "neap/layers/cuda/device/cuda_status.h"

namespace neap::cuda {
namespace {

constexpr size_t kMaxOnTensorCores = 8, kMaxOthers = 4;

class NarrowBiasPlan final : public ConvolutionPlan {
 public:
  NarrowBiasPlan(SharedRuntime runtime, const ConvolutionProblem& problem,
                 std::unique_ptr<ConvolutionPlan> plan)
      : runtime_(std::move(runtime)), problem_(problem), plan_(std::move(plan)) {}

  absl::Status Execute(const ConvolutionPointers& pointers, void* workspace) override {
    const kernels::Array narrow = {workspace, ElementOf(problem_.y.dtype)};
    RETURN_IF_ERROR(CudaStatus(kernels::Narrow(static_cast<const float*>(pointers.bias), narrow,
                                               problem_.y.shape.c(), runtime_->stream),
                               "cast of a bias"));
    ConvolutionPointers with_narrow = pointers;
    with_narrow.bias = workspace;
    return plan_->Execute(with_narrow,
                          static_cast<std::byte*>(workspace) + NarrowBiasBytes(problem_));
  }

 private:
  SharedRuntime runtime_;
  ConvolutionProblem problem_;
  std::unique_ptr<ConvolutionPlan> plan_;
};

}  // namespace

int64_t NarrowBiasBytes(const ConvolutionProblem& problem) {
  if (!Is16Bit(problem.y.dtype)) return 0;
  return RoundUp(problem.y.shape.c() * SizeOf(problem.y.dtype), kWorkspaceAlignment);
}

absl::StatusOr<std::vector<Engine>> BiasReluEngines(const ConvolutionProblem& problem,
                                                    CudnnConvolutions& cudnn) {
  ASSIGN_OR_RETURN(std::vector<Engine> engines, cudnn.Engines(problem));
  const bool any = std::any_of(engines.begin(), engines.end(),
                               [](const Engine& engine) { return engine.uses_tensor_cores; });
  if (any) std::erase_if(engines, [](const Engine& engine) { return !engine.uses_tensor_cores; });
  engines.resize(std::min(engines.size(), any ? kMaxOnTensorCores : kMaxOthers));
  for (Engine& engine : engines) engine.workspace_bytes += NarrowBiasBytes(problem);
  return engines;
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildBiasRelu(const SharedRuntime& runtime,
                                                               const ConvolutionProblem& problem,
                                                               std::string_view engine) {
  ASSIGN_OR_RETURN(std::unique_ptr<ConvolutionPlan> plan, runtime->cudnn->Build(problem, engine));
  if (NarrowBiasBytes(problem) == 0) return plan;
  return std::make_unique<NarrowBiasPlan>(runtime, problem, std::move(plan));
}

}  // namespace neap::cuda
