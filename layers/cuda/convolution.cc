// Convolution: a plan of cuDNN or our own, and kernels for the bias, which share its workspace
// because they run after it.
#include "neap/layers/convolution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "neap/core/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/cuda_status.h"
#include "neap/layers/cuda/pointwise_convolution.h"

namespace neap::cuda {
namespace {

using namespace operands;

// The operands that are the problem's x, weight and y in each phase.
struct Roles {
  Operand x, weight, y;
};
Roles RolesOf(Phase phase) {
  if (phase == Phase::kForward) return {X(), Param(0), Y()};
  if (phase == Phase::kBackwardData) return {Dx(), Param(0), Dy()};
  return {X(), ParamGrad(0), Dy()};
}

ConvolutionProblem ProblemOf(const StepSignature& signature) {
  const Convolution& layer = *signature.layer.As<Convolution>();
  const Roles roles = RolesOf(signature.phase);
  return {.phase = signature.phase,
          .x = signature.Spec(roles.x),
          .weight = signature.Spec(roles.weight),
          .y = signature.Spec(roles.y),
          .stride = layer.stride,
          .padding = layer.padding,
          .dilation = layer.dilation};
}

class ConvolutionKernel final : public StreamKernel {
 public:
  ConvolutionKernel(SharedRuntime runtime, const StepSignature& signature,
                    std::unique_ptr<ConvolutionPlan> plan)
      : StreamKernel(std::move(runtime), signature), plan_(std::move(plan)) {}

 protected:
  absl::Status Launch(const LaunchArgs& args) override {
    const Roles roles = RolesOf(signature().phase);
    const ConvolutionPointers pointers = {args.Get<void>(roles.x), args.Get<void>(roles.weight),
                                          args.Get<void>(roles.y)};
    RETURN_IF_ERROR(plan_->Execute(pointers, args.run.workspace));
    return Bias(args);
  }

 private:
  absl::Status Bias(const LaunchArgs& args) {
    if (float* const bias = args.Find<float>(Param(1));
        signature().phase == Phase::kForward && bias != nullptr) {
      const kernels::ChannelShape shape = ChannelShapeOf(signature().Spec(Y()));
      return CudaStatus(kernels::AddBias(shape, bias, args.Get<float>(Y()), args.stream),
                        "convolution bias");
    }
    if (float* const dbias = args.Find<float>(ParamGrad(1)); dbias != nullptr) {
      const kernels::ChannelShape shape = ChannelShapeOf(signature().Spec(Dy()));
      return CudaStatus(kernels::BiasGradient(shape, args.Get<float>(Dy()), dbias,
                                              args.run.workspace, args.stream),
                        "convolution bias gradient");
    }
    return absl::OkStatus();
  }

  std::unique_ptr<ConvolutionPlan> plan_;
};

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildCudnn(const SharedRuntime& runtime,
                                                            const ConvolutionProblem& problem,
                                                            const std::string& engine) {
  return runtime->cudnn->Build(problem, engine);
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildOwn(const SharedRuntime& runtime,
                                                          const ConvolutionProblem& problem,
                                                          const std::string&) {
  return BuildPointwise(runtime, problem);
}

}  // namespace

absl::StatusOr<Candidates> ConvolutionCandidates(const StepSignature& signature,
                                                 CudnnConvolutions& cudnn) {
  const ConvolutionProblem problem = ProblemOf(signature);
  ASSIGN_OR_RETURN(const std::vector<Engine> engines, cudnn.Engines(problem));
  int64_t bias_bytes = 0;
  if (signature.Has(ParamGrad(1))) {
    const kernels::ChannelShape dy = ChannelShapeOf(problem.y);
    RETURN_IF_ERROR(CheckFits32(signature, dy.outer * dy.inner));
    bias_bytes = kernels::ChannelScratchBytes(dy);
  }
  const auto shared = std::make_shared<const StepSignature>(signature);
  const auto candidate = [&](Engine engine, auto build) {
    engine.workspace_bytes = std::max(engine.workspace_bytes, bias_bytes);
    const auto make =
        [shared, problem, build, id = engine.id](
            const SharedRuntime& runtime) -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<ConvolutionPlan> plan, build(runtime, problem, id));
      return std::make_unique<ConvolutionKernel>(runtime, *shared, std::move(plan));
    };
    return Candidate{std::move(engine), make};
  };

  Candidates candidates;
  candidates.reserve(engines.size() + 1);
  for (const Engine& engine : engines) candidates.push_back(candidate(engine, BuildCudnn));
  if (const std::optional<Engine> pointwise = PointwiseEngine(problem)) {
    const auto at = PointwiseIsFirstChoice(problem) ? candidates.begin() : candidates.end();
    candidates.insert(at, candidate(*pointwise, BuildOwn));
  }
  return candidates;
}

}  // namespace neap::cuda
