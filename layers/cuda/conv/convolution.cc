// Convolution and transposed convolution: a plan of cuDNN or of neap, and kernels for the bias, the
// ReLU and an addend as far as the plan does not compute them, which reuse its workspace because
// they run after it. A transposed convolution runs as
// the convolution from its y to its x, with forward and backward_data swapped. Planes of volumes
// with channels last are images, if windows have one plane and do not move along D.
#include "neap/layers/convolution.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/catalog/engine_id.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/bias_relu_engines.h"
#include "neap/layers/cuda/conv/cudnn_engines.h"
#include "neap/layers/cuda/conv/depthwise_convolution.h"
#include "neap/layers/cuda/conv/pointwise_convolution.h"
#include "neap/layers/cuda/conv/position_convolution.h"
#include "neap/layers/cuda/conv/space_to_depth.h"
#include "neap/layers/cuda/conv/weight_gradient.h"
#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/residual_convolution.h"
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
  const Operand dy = signature.Has(Dz()) ? Dz() : Dy();
  if (signature.layer.As<TransposedConvolution>() != nullptr) {
    if (phase == Phase::kForward) return {Phase::kBackwardData, Y(), Param(0), X()};
    if (phase == Phase::kBackwardData) return {Phase::kForward, Dy(), Param(0), Dx()};
    return {phase, Dy(), ParamGrad(0), X()};
  }
  if (phase == Phase::kForward) return {phase, X(), Param(0), Y()};
  if (phase == Phase::kBackwardData) return {phase, Dx(), Param(0), dy};
  return {phase, X(), ParamGrad(0), dy};
}

Convolution LayerOf(const StepSignature& signature, const Roles& roles) {
  if (const Convolution* layer = signature.layer.As<Convolution>()) return *layer;
  if (const auto* fused = signature.layer.As<FusedConvolution>()) return fused->convolution;
  if (const auto* sum = signature.layer.As<ResidualConvolution>()) return sum->convolution();
  return signature.layer.As<TransposedConvolution>()->Transposed(signature.Spec(roles.y).shape.c());
}

bool HasPlanesAsImages(const ConvolutionProblem& problem) {
  constexpr int kVolume = kMaxSpatialAxes;
  return problem.axes() == kVolume && problem.x.layout == Layout::kChannelsLast &&
         problem.weight.shape.d() == 1 && problem.stride.d(kVolume, 1) == 1 &&
         problem.padding.d(kVolume, 0) == 0;
}

ConvolutionProblem OfImages(ConvolutionProblem problem) {
  for (TensorSpec* const spec : {&problem.x, &problem.weight, &problem.y}) {
    const Shape volume = spec->shape;
    spec->shape = {volume.n() * volume.d(), volume.c(), volume.h(), volume.w()};
  }
  for (Extents* const extents : {&problem.stride, &problem.padding, &problem.dilation})
    *extents = {extents->h(), extents->w()};
  return problem;
}

// Whether the step is the forward step of a convolution and the sum behind it.
bool EndsWithSum(const StepSignature& signature) {
  return signature.phase == Phase::kForward && signature.layer.As<ResidualConvolution>() != nullptr;
}

// Whether the step is the forward step of a convolution with a bias and no ReLU.
bool AddsBiasAlone(const StepSignature& signature) {
  const bool is_plain = signature.layer.As<Convolution>() != nullptr || EndsWithSum(signature);
  return signature.phase == Phase::kForward && is_plain && signature.Has(Param(1));
}

ConvolutionProblem ProblemOf(const StepSignature& signature) {
  const Roles roles = RolesOf(signature);
  const Convolution layer = LayerOf(signature, roles);
  ConvolutionProblem problem = {.phase = roles.phase,
                                .x = signature.Spec(roles.x),
                                .weight = signature.Spec(roles.weight),
                                .y = signature.Spec(roles.y),
                                .stride = layer.stride,
                                .padding = layer.padding,
                                .dilation = layer.dilation,
                                .accumulate = signature.Accumulates(roles.weight),
                                .bias = AddsBiasAlone(signature),
                                .adds = EndsWithSum(signature)};
  return HasPlanesAsImages(problem) ? OfImages(std::move(problem)) : problem;
}

// Whether the step is the forward step of a convolution with a ReLU.
bool EndsWithRelu(const StepSignature& signature) {
  return signature.phase == Phase::kForward && signature.layer.As<FusedConvolution>() != nullptr;
}

class ConvolutionKernel final : public StreamKernel {
 public:
  // `plan` computes the ReLU if the problem says so, and perhaps adds the bias; otherwise kernels
  // follow it.
  ConvolutionKernel(SharedRuntime runtime, const StepSignature& signature,
                    const ConvolutionProblem& problem, std::unique_ptr<ConvolutionPlan> plan)
      : StreamKernel(std::move(runtime), signature),
        plan_(std::move(plan)),
        plan_is_all_(problem.relu || plan_->AddsBias()) {}

 protected:
  absl::Status Launch(const LaunchArgs& args) override {
    const Roles roles = RolesOf(signature());
    RETURN_IF_ERROR(
        plan_->Execute({.x = args.Get<void>(roles.x),
                        .weight = args.Get<void>(roles.weight),
                        .y = args.Get<void>(roles.y),
                        .bias = args.Find<float>(Param(1)),
                        .addend = args.Find<void>(EndsWithSum(signature()) ? X(1) : Addend())},
                       args.run.workspace));
    if (signature().Has(Addend())) return CudaStatus(AddAddend(args), "convolution addend");
    if (plan_is_all_) return absl::OkStatus();
    if (EndsWithRelu(signature())) return CudaStatus(Relu(args), "convolution bias and ReLU");
    if (signature().phase == Phase::kForward) return CudaStatus(Bias(args), "convolution bias");
    return CudaStatus(BiasGradient(args), "convolution bias gradient");
  }

 private:
  // Over the result of the convolution.
  cudaError_t Relu(const LaunchArgs& args) const {
    float* const bias = args.Find<float>(Param(1));
    const kernels::Array y = args.Array(Y());
    return bias != nullptr
               ? kernels::BiasRelu(ChannelShapeOf(signature().Spec(Y())), y, bias, y, args.stream)
               : kernels::Activate(kernels::kRelu, y, y, args.Elements(Y()), args.stream);
  }

  cudaError_t Bias(const LaunchArgs& args) const {
    float* const bias = args.Find<float>(Param(1));
    if (bias == nullptr) return cudaSuccess;
    return kernels::AddBias(ChannelShapeOf(signature().Spec(Y())), bias, args.Array(Y()),
                            args.stream);
  }

  cudaError_t AddAddend(const LaunchArgs& args) const {
    if (plan_->AddsAddend()) return cudaSuccess;
    const kernels::Array dx = args.Array(Dx());
    const kernels::ConstArray terms[] = {dx, args.Array(Addend())};
    return kernels::Add(terms, 2, dx, args.Elements(Dx()), args.stream);
  }

  cudaError_t BiasGradient(const LaunchArgs& args) const {
    float* const dbias = args.Find<float>(ParamGrad(1));
    if (dbias == nullptr) return cudaSuccess;
    return kernels::BiasGradient(ChannelShapeOf(signature().Spec(Dy())), args.Array(Dy()), dbias,
                                 signature().Accumulates(ParamGrad(1)), args.Reduction(),
                                 args.stream);
  }

  std::unique_ptr<ConvolutionPlan> plan_;
  bool plan_is_all_;
};

// The function that builds the plan of neap's only engine of a kind, whatever its id.
using BuildOne = absl::StatusOr<std::unique_ptr<ConvolutionPlan>> (*)(const SharedRuntime&,
                                                                      const ConvolutionProblem&);
auto Only(BuildOne build) {
  return [build](const SharedRuntime& runtime, const ConvolutionProblem& problem,
                 const std::string&) { return build(runtime, problem); };
}

// The candidate that runs the plan which `build(runtime, problem, id)` makes of the engine.
template <typename Build>
Candidate ConvolutionCandidate(Engine engine, const ConvolutionProblem& problem,
                               const std::shared_ptr<const StepSignature>& signature,
                               const SharedRuntime& runtime, Build build) {
  const auto make = [signature, runtime, problem, build,
                     id = engine.id]() -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
    ASSIGN_OR_RETURN(std::unique_ptr<ConvolutionPlan> plan, build(runtime, problem, id));
    return std::make_unique<ConvolutionKernel>(runtime, *signature, problem, std::move(plan));
  };
  if (problem.half_accumulation) MarkHalf(engine);
  if (problem.relu) MarkRelu(engine);
  return StreamCandidate(std::move(engine), make);
}

// Candidates in the order in which they are to be tried.
struct OrderedCandidates {
  Candidates first;  // that neap puts before cuDNN's
  Candidates rest;   // cuDNN's, then others

  const Candidate& front() const { return first.empty() ? rest.front() : first.front(); }
  Candidates Take() {
    first.insert(first.end(), std::make_move_iterator(rest.begin()),
                 std::make_move_iterator(rest.end()));
    return std::move(first);
  }
};

absl::StatusOr<OrderedCandidates> CandidatesFor(const ConvolutionProblem& problem,
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
  if (signature.Has(Param(1)))
    RETURN_IF_ERROR(CheckPlanesFit32(signature, ChannelShapeOf(signature.Spec(Y()))));
  const auto shared = std::make_shared<const StepSignature>(signature);
  const auto candidate = [&](Engine engine, auto build) {
    engine.workspace_bytes = std::max(engine.workspace_bytes, bias_bytes);
    return ConvolutionCandidate(std::move(engine), problem, shared, runtime, build);
  };

  OrderedCandidates candidates;
  const auto append = [&](const std::vector<Engine>& from, auto build, Candidates& to) {
    for (const Engine& engine : from) to.push_back(candidate(engine, build));
  };
  append(engines, BuildConvolution, candidates.rest);
  append(deep_engines, BuildSpaceToDepth,
         SpaceToDepthIsFirstChoice(problem) ? candidates.first : candidates.rest);
  if (const std::optional<Engine> pointwise = PointwiseEngine(problem)) {
    append({*pointwise}, Only(BuildPointwise),
           PointwiseIsFirstChoice(problem) ? candidates.first : candidates.rest);
  }
  append(PositionEngines(problem), BuildPosition,
         PositionIsFirstChoice(problem) ? candidates.first : candidates.rest);
  if (const std::optional<Engine> depthwise = DepthwiseEngine(problem))
    append({*depthwise}, Only(BuildDepthwise), candidates.first);
  if (candidates.first.empty() && candidates.rest.empty()) return listed.status();
  return candidates;
}

// Candidates that add x_1 in the product.
absl::StatusOr<Candidates> SumCandidates(const ConvolutionProblem& problem,
                                         const StepSignature& signature,
                                         const SharedRuntime& runtime) {
  if (signature.Has(Param(1)))
    RETURN_IF_ERROR(CheckPlanesFit32(signature, ChannelShapeOf(signature.Spec(Y()))));
  const auto shared = std::make_shared<const StepSignature>(signature);
  Candidates candidates;
  for (const Engine& engine : PositionEngines(problem))
    candidates.push_back(ConvolutionCandidate(engine, problem, shared, runtime, BuildPosition));
  return candidates;
}

// Adds cuDNN's engines that add the bias and compute the ReLU, too. They come before its other
// engines if they use tensor cores, and no more workspace than the first of all engines, apart from
// the bias. Larger workspaces are for measured times only.
absl::Status AddReluCandidates(ConvolutionProblem problem, const StepSignature& signature,
                               const SharedRuntime& runtime, OrderedCandidates& candidates) {
  if (!signature.Has(Param(1))) return absl::OkStatus();
  problem.relu = true;
  const absl::StatusOr<std::vector<Engine>> engines = BiasReluEngines(problem, *runtime->cudnn);
  if (absl::IsUnimplemented(engines.status())) return absl::OkStatus();
  RETURN_IF_ERROR(engines.status());
  const int64_t most_bytes = candidates.front().engine.workspace_bytes + NarrowBiasBytes(problem);
  const auto shared = std::make_shared<const StepSignature>(signature);
  for (const Engine& engine : *engines) {
    const bool early = engine.uses_tensor_cores && engine.workspace_bytes <= most_bytes;
    (early ? candidates.first : candidates.rest)
        .push_back(ConvolutionCandidate(engine, problem, shared, runtime, BuildBiasRelu));
  }
  return absl::OkStatus();
}

// The gradient before the ReLU, and that of the bias.
cudaError_t BackwardActivation(const LaunchArgs& a) {
  float* const dbias = a.Find<float>(ParamGrad(1));
  if (dbias == nullptr)
    return kernels::ActivateBackward(kernels::kRelu, a.Array(Y()), a.Array(Dy()), a.Array(Dz()),
                                     a.Elements(Dz()), a.stream);
  return kernels::BiasReluBackward(ChannelShapeOf(a.signature.Spec(Dz())), a.Array(Y()),
                                   a.Array(Dy()), a.Array(Dz()), dbias, a.Reduction(), a.stream);
}

absl::StatusOr<Candidates> BackwardActivationCandidates(const StepSignature& signature,
                                                        const SharedRuntime& runtime) {
  if (!signature.Has(ParamGrad(1))) return OwnKernel(signature, runtime, BackwardActivation);
  const TensorSpec& dz = signature.Spec(Dz());
  const kernels::ChannelShape shape = ChannelShapeOf(dz);
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  return OwnKernel(signature, runtime, BackwardActivation,
                   kernels::ChannelScratchBytes(shape, ElementOf(dz.dtype)));
}

}  // namespace

absl::StatusOr<Candidates> ConvolutionCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  if (signature.phase == Phase::kBackwardActivation)
    return BackwardActivationCandidates(signature, runtime);
  const ConvolutionProblem problem = ProblemOf(signature);
  if (problem.adds) return SumCandidates(problem, signature, runtime);
  ASSIGN_OR_RETURN(OrderedCandidates candidates, CandidatesFor(problem, signature, runtime));
  if (EndsWithRelu(signature))
    RETURN_IF_ERROR(AddReluCandidates(problem, signature, runtime, candidates));
  return candidates.Take();
}

absl::StatusOr<Candidates> HalfConvolutionCandidates(const StepSignature& signature,
                                                     const SharedRuntime& runtime) {
  if (signature.phase == Phase::kBackwardActivation) return Candidates{};
  ConvolutionProblem problem = ProblemOf(signature);
  if (problem.x.dtype != DType::kFp16 || problem.adds) return Candidates{};
  problem.half_accumulation = true;
  absl::StatusOr<OrderedCandidates> candidates = CandidatesFor(problem, signature, runtime);
  if (absl::IsUnimplemented(candidates.status())) return Candidates{};
  RETURN_IF_ERROR(candidates.status());
  return candidates->Take();
}

}  // namespace neap::cuda
