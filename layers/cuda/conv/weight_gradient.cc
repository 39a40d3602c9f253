#include "neap/layers/cuda/conv/weight_gradient.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/device/cuda_status.h"

namespace neap::cuda {
namespace {

constexpr std::string_view kCast = "cast:";

bool NeedsCast(const ConvolutionProblem& problem) {
  return problem.phase == Phase::kBackwardParams && Is16Bit(problem.x.dtype) &&
         !Is16Bit(problem.weight.dtype);
}

// The problem whose gradient has the operands' type.
ConvolutionProblem NarrowProblem(const ConvolutionProblem& problem) {
  ConvolutionProblem narrow = problem;
  narrow.weight.dtype = problem.x.dtype;
  narrow.accumulate = false;  // Widen() adds
  return narrow;
}

int64_t GradientBytes(const ConvolutionProblem& narrow) {
  return RoundUp(narrow.weight.size_bytes(), kWorkspaceAlignment);
}

class CastPlan final : public ConvolutionPlan {
 public:
  CastPlan(SharedRuntime runtime, const ConvolutionProblem& problem,
           std::unique_ptr<ConvolutionPlan> plan)
      : runtime_(std::move(runtime)), problem_(problem), plan_(std::move(plan)) {}

  absl::Status Execute(const ConvolutionPointers& pointers, void* workspace) override {
    const ConvolutionProblem narrow = NarrowProblem(problem_);
    std::byte* const rest = static_cast<std::byte*>(workspace) + GradientBytes(narrow);
    RETURN_IF_ERROR(plan_->Execute({pointers.x, workspace, pointers.y}, rest));
    const kernels::ConstArray gradient = {workspace, ElementOf(narrow.weight.dtype)};
    return CudaStatus(
        kernels::Widen(gradient, static_cast<float*>(pointers.weight), narrow.weight.elements(),
                       problem_.accumulate, runtime_->stream),
        "cast of a weight gradient");
  }

 private:
  SharedRuntime runtime_;
  ConvolutionProblem problem_;
  std::unique_ptr<ConvolutionPlan> plan_;
};

}  // namespace

absl::StatusOr<std::vector<Engine>> ConvolutionEngines(const ConvolutionProblem& problem,
                                                       CudnnConvolutions& cudnn) {
  absl::StatusOr<std::vector<Engine>> direct = cudnn.Engines(problem);
  if (!NeedsCast(problem) || !(direct.ok() || absl::IsUnimplemented(direct.status())))
    return direct;
  const ConvolutionProblem narrow = NarrowProblem(problem);
  absl::StatusOr<std::vector<Engine>> casting = cudnn.Engines(narrow);
  if (absl::IsUnimplemented(casting.status())) return direct;
  RETURN_IF_ERROR(casting.status());
  std::vector<Engine> engines = direct.ok() ? *std::move(direct) : std::vector<Engine>();
  for (Engine& engine : *casting) {
    engine.id = absl::StrCat(std::string(kCast), engine.id);
    engine.workspace_bytes += GradientBytes(narrow);
    engine.notes = absl::StrCat("cast", engine.notes.empty() ? "" : " ", engine.notes);
    engines.push_back(std::move(engine));
  }
  return engines;
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildConvolution(const SharedRuntime& runtime,
                                                                  const ConvolutionProblem& problem,
                                                                  std::string_view engine) {
  if (engine.substr(0, kCast.size()) != kCast) return runtime->cudnn->Build(problem, engine);
  engine.remove_prefix(kCast.size());
  ASSIGN_OR_RETURN(std::unique_ptr<ConvolutionPlan> plan,
                   runtime->cudnn->Build(NarrowProblem(problem), engine));
  return std::make_unique<CastPlan>(runtime, problem, std::move(plan));
}

}  // namespace neap::cuda
