// Convolution and transposed convolution: a plan of cuDNN or of neap, and kernels for the bias,
// which reuse its workspace because they run after it. A transposed convolution runs as the
// convolution from its y to its x, with forward and backward_data swapped.
#include "neap/layers/convolution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/cuda_status.h"
#include "neap/layers/cuda/pointwise_convolution.h"
#include "neap/layers/cuda/space_to_depth.h"
#include "neap/layers/cuda/weight_gradient.h"
#include "neap/layers/transposed_convolution.h"

namespace neap::cuda {
namespace {

using namespace operands;

// The problem's phase, and the operands in the roles of its x, weight and y.
struct Roles {
  Phase phase;
  Operand x, weight, y;
};
Roles RolesOf(const StepSignature& signature) {
  const Phase phase = signature.phase;
  if (signature.layer.As<TransposedConvolution>() != nullptr) {
    if (phase == Phase::kForward) return {Phase::kBackwardData, Y(), Param(0), X()};
    if (phase == Phase::kBackwardData) return {Phase::kForward, Dy(), Param(0), Dx()};
    return {phase, Dy(), ParamGrad(0), X()};
  }
  if (phase == Phase::kForward) return {phase, X(), Param(0), Y()};
  if (phase == Phase::kBackwardData) return {phase, Dx(), Param(0), Dy()};
  return {phase, X(), ParamGrad(0), Dy()};
}

Convolution LayerOf(const StepSignature& signature, const Roles& roles) {
  if (const Convolution* layer = signature.layer.As<Convolution>()) return *layer;
  return signature.layer.As<TransposedConvolution>()->Transposed(signature.Spec(roles.y).shape.c());
}

ConvolutionProblem ProblemOf(const StepSignature& signature) {
  const Roles roles = RolesOf(signature);
  const Convolution layer = LayerOf(signature, roles);
  return {.phase = roles.phase,
          .x = signature.Spec(roles.x),
          .weight = signature.Spec(roles.weight),
          .y = signature.Spec(roles.y),
          .stride = layer.stride,
          .padding = layer.padding,
          .dilation = layer.dilation,
          .accumulate = signature.Accumulates(roles.weight)};
}

class ConvolutionKernel final : public StreamKernel {
 public:
  ConvolutionKernel(SharedRuntime runtime, const StepSignature& signature,
                    std::unique_ptr<ConvolutionPlan> plan)
      : StreamKernel(std::move(runtime), signature), plan_(std::move(plan)) {}

 protected:
  absl::Status Launch(const LaunchArgs& args) override {
    const Roles roles = RolesOf(signature());
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
      return CudaStatus(kernels::AddBias(shape, bias, args.Array(Y()), args.stream),
                        "convolution bias");
    }
    if (float* const dbias = args.Find<float>(ParamGrad(1)); dbias != nullptr) {
      const kernels::ChannelShape shape = ChannelShapeOf(signature().Spec(Dy()));
      const bool add = signature().Accumulates(ParamGrad(1));
      return CudaStatus(
          kernels::BiasGradient(shape, args.Array(Dy()), dbias, add, args.Reduction(), args.stream),
          "convolution bias gradient");
    }
    return absl::OkStatus();
  }

  std::unique_ptr<ConvolutionPlan> plan_;
};

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildOwn(const SharedRuntime& runtime,
                                                          const ConvolutionProblem& problem,
                                                          const std::string&) {
  return BuildPointwise(runtime, problem);
}

// Says in the engine's id and notes that it adds in fp16.
void MarkHalf(Engine& engine) {
  engine.id = absl::StrCat(std::string(kHalfAccumulation), engine.id);
  engine.notes = absl::StrCat("half-accumulation", engine.notes.empty() ? "" : " ", engine.notes);
}

absl::StatusOr<Candidates> CandidatesFor(const ConvolutionProblem& problem,
                                         const StepSignature& signature,
                                         const SharedRuntime& runtime) {
  absl::StatusOr<std::vector<Engine>> listed = ConvolutionEngines(problem, *runtime->cudnn);
  if (!listed.ok() && !absl::IsUnimplemented(listed.status())) return listed.status();
  const std::vector<Engine> engines = listed.ok() ? *std::move(listed) : std::vector<Engine>{};
  ASSIGN_OR_RETURN(const std::vector<Engine> deep_engines,
                   SpaceToDepthEngines(problem, *runtime->cudnn));
  int64_t bias_bytes = 0;
  if (signature.Has(ParamGrad(1))) {
    const kernels::ChannelShape dy = ChannelShapeOf(signature.Spec(Dy()));
    RETURN_IF_ERROR(CheckFits32(signature, dy.outer * dy.inner));
    bias_bytes = kernels::ChannelScratchBytes(dy, ElementOf(signature.Spec(Dy()).dtype));
  }
  const auto shared = std::make_shared<const StepSignature>(signature);
  const auto candidate = [&](Engine engine, auto build) {
    engine.workspace_bytes = std::max(engine.workspace_bytes, bias_bytes);
    const auto make = [shared, runtime, problem, build,
                       id = engine.id]() -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<ConvolutionPlan> plan, build(runtime, problem, id));
      return std::make_unique<ConvolutionKernel>(runtime, *shared, std::move(plan));
    };
    if (problem.half_accumulation) MarkHalf(engine);
    return StreamCandidate(std::move(engine), make);
  };

  Candidates candidates;
  candidates.reserve(engines.size() + deep_engines.size() + 1);
  const auto append = [&](const std::vector<Engine>& from, auto build) {
    for (const Engine& engine : from) candidates.push_back(candidate(engine, build));
  };
  const bool deep_first = SpaceToDepthIsFirstChoice(problem);
  if (deep_first) append(deep_engines, BuildSpaceToDepth);
  append(engines, BuildConvolution);
  if (!deep_first) append(deep_engines, BuildSpaceToDepth);
  if (const std::optional<Engine> pointwise = PointwiseEngine(problem)) {
    const auto at = PointwiseIsFirstChoice(problem) ? candidates.begin() : candidates.end();
    candidates.insert(at, candidate(*pointwise, BuildOwn));
  }
  if (candidates.empty()) return listed.status();
  return candidates;
}

}  // namespace

absl::StatusOr<Candidates> ConvolutionCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  return CandidatesFor(ProblemOf(signature), signature, runtime);
}

absl::StatusOr<Candidates> HalfConvolutionCandidates(const StepSignature& signature,
                                                     const SharedRuntime& runtime) {
  ConvolutionProblem problem = ProblemOf(signature);
  if (problem.x.dtype != DType::kFp16) return Candidates{};
  problem.half_accumulation = true;
  absl::StatusOr<Candidates> candidates = CandidatesFor(problem, signature, runtime);
  if (absl::IsUnimplemented(candidates.status())) return Candidates{};
  return candidates;
}

}  // namespace neap::cuda
