#include "neap/layers/cuda/conv/space_to_depth.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/conv/weight_gradient.h"
#include "neap/layers/cuda/device/cuda_status.h"

namespace neap::cuda {
namespace {

constexpr int64_t kMaxCopiedChannels = 7;

// Kernels load 16 bytes.
int64_t ChannelMultiple(DType dtype) { return 16 / SizeOf(dtype); }

// The rearranged shape of an image, or of a weight, whose filters count as images.
Shape DeepShape(const Shape& shape, Extents block, Extents size, int64_t multiple) {
  return {shape.n(), RoundUp(shape.c() * block.product(), multiple), size.h(), size.w()};
}

ConvolutionProblem DeepProblem(const ConvolutionProblem& problem) {
  const Shape &weight = problem.weight.shape, &y = problem.y.shape;
  const Extents block = problem.stride;
  const int64_t multiple = ChannelMultiple(problem.x.dtype);
  const Extents kernel = {RoundUp(weight.h(), block.h()) / block.h(),
                          RoundUp(weight.w(), block.w()) / block.w()};
  ConvolutionProblem deep = problem;
  deep.stride = 1;
  deep.padding = 0;
  deep.accumulate = false;  // DepthToSpace() adds
  deep.weight.shape = DeepShape(weight, block, kernel, multiple);
  // Large enough for every window.
  deep.x.shape =
      DeepShape(problem.x.shape, block, {y.h() - 1 + kernel.h(), y.w() - 1 + kernel.w()}, multiple);
  return deep;
}

// Whether the rearranged filter has at most half as many elements more. The padding from four to
// eight channels does not count, so that the choice for 16 bits is that for tf32.
bool HasFewZeros(const ConvolutionProblem& problem, const SpaceToDepth& deep) {
  const Shape &filter = problem.weight.shape, &deep_filter = deep.problem.weight.shape;
  const int64_t channels =
      RoundUp(filter.c() * deep.block.product(), ChannelMultiple(DType::kFp32));
  return 2 * channels * deep_filter.positions() <= 3 * filter.c() * filter.positions();
}

std::string PrefixOf(Extents block) { return absl::StrCat("s2d", block.h(), "x", block.w(), "+"); }

kernels::DepthShape DepthShapeOf(const TensorSpec& wide, const TensorSpec& deep, Extents block,
                                 Extents padding) {
  return {.outer = wide.shape.n(),
          .channels = wide.shape.c(),
          .h = wide.shape.h(),
          .w = wide.shape.w(),
          .deep_channels = deep.shape.c(),
          .deep_h = deep.shape.h(),
          .deep_w = deep.shape.w(),
          .block_h = block.h(),
          .block_w = block.w(),
          .padding_h = padding.h(),
          .padding_w = padding.w(),
          .channels_last = wide.layout == Layout::kChannelsLast};
}

class SpaceToDepthPlan final : public ConvolutionPlan {
 public:
  SpaceToDepthPlan(SharedRuntime runtime, const ConvolutionProblem& problem,
                   const SpaceToDepth& deep, std::unique_ptr<ConvolutionPlan> plan)
      : runtime_(std::move(runtime)),
        phase_(problem.phase),
        accumulate_(problem.accumulate),
        type_(ElementOf(problem.x.dtype)),
        image_(DepthShapeOf(problem.x, deep.problem.x, deep.block, problem.padding)),
        filter_(DepthShapeOf(problem.weight, deep.problem.weight, deep.block, 0)),
        x_bytes_(deep.x_bytes()),
        operand_bytes_(deep.operand_bytes()),
        plan_(std::move(plan)) {}

  absl::Status Execute(const ConvolutionPointers& pointers, void* workspace) override {
    std::byte* const bytes = static_cast<std::byte*>(workspace);
    std::byte* const weight = bytes + x_bytes_;
    const ConvolutionPointers deep = {workspace, weight, pointers.y};
    RETURN_IF_ERROR(Deepen(image_, pointers.x, workspace));
    if (phase_ == Phase::kForward) {
      RETURN_IF_ERROR(Deepen(filter_, pointers.weight, weight));
      return plan_->Execute(deep, bytes + operand_bytes_);
    }
    RETURN_IF_ERROR(plan_->Execute(deep, bytes + operand_bytes_));
    return CudaStatus(
        kernels::DepthToSpace(filter_, reinterpret_cast<const float*>(weight),
                              static_cast<float*>(pointers.weight), accumulate_, runtime_->stream),
        "depth to space");
  }

 private:
  absl::Status Deepen(const kernels::DepthShape& shape, const void* wide, void* deep) const {
    return CudaStatus(kernels::SpaceToDepth(shape, kernels::ConstArray(wide, type_),
                                            kernels::Array(deep, type_), runtime_->stream),
                      "space to depth");
  }

  SharedRuntime runtime_;
  Phase phase_;
  bool accumulate_;
  kernels::Element type_;  // of x and of a weight
  kernels::DepthShape image_, filter_;
  int64_t x_bytes_, operand_bytes_;
  std::unique_ptr<ConvolutionPlan> plan_;
};

}  // namespace

int64_t SpaceToDepth::x_bytes() const {
  return RoundUp(problem.x.size_bytes(), kWorkspaceAlignment);
}

int64_t SpaceToDepth::operand_bytes() const {
  return x_bytes() + RoundUp(problem.weight.size_bytes(), kWorkspaceAlignment);
}

std::optional<SpaceToDepth> FindSpaceToDepth(const ConvolutionProblem& problem) {
  const Shape& weight = problem.weight.shape;
  const Extents stride = problem.stride;
  const int64_t channels = problem.x.shape.c();
  const bool applies = problem.axes() == 2 && channels <= kMaxCopiedChannels &&
                       channels % ChannelMultiple(problem.x.dtype) != 0 && weight.c() == channels &&
                       stride != Extents(1) && stride.h() <= weight.h() &&
                       stride.w() <= weight.w() && problem.dilation == Extents(1) &&
                       problem.phase != Phase::kBackwardData;
  if (!applies) return std::nullopt;
  return SpaceToDepth{stride, DeepProblem(problem)};
}

bool SpaceToDepthIsFirstChoice(const ConvolutionProblem& problem) {
  const std::optional<SpaceToDepth> deep = FindSpaceToDepth(problem);
  return deep.has_value() && problem.x.dtype != DType::kFp32 &&
         problem.x.layout == Layout::kChannelsLast && HasFewZeros(problem, *deep);
}

absl::StatusOr<std::vector<Engine>> SpaceToDepthEngines(const ConvolutionProblem& problem,
                                                        CudnnConvolutions& cudnn) {
  const std::optional<SpaceToDepth> deep = FindSpaceToDepth(problem);
  if (!deep.has_value()) return std::vector<Engine>{};
  absl::StatusOr<std::vector<Engine>> engines = ConvolutionEngines(deep->problem, cudnn);
  if (absl::IsUnimplemented(engines.status())) return std::vector<Engine>{};
  RETURN_IF_ERROR(engines.status());
  for (Engine& engine : *engines) {
    engine.id = PrefixOf(deep->block) + engine.id;
    engine.workspace_bytes += deep->operand_bytes();
    engine.notes = absl::StrCat("space-to-depth", engine.notes.empty() ? "" : " ", engine.notes);
  }
  return engines;
}

absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildSpaceToDepth(
    const SharedRuntime& runtime, const ConvolutionProblem& problem, std::string_view engine) {
  const SpaceToDepth deep = FindSpaceToDepth(problem).value();
  engine.remove_prefix(PrefixOf(deep.block).size());
  ASSIGN_OR_RETURN(std::unique_ptr<ConvolutionPlan> plan,
                   BuildConvolution(runtime, deep.problem, engine));
  return std::make_unique<SpaceToDepthPlan>(runtime, problem, deep, std::move(plan));
}

}  // namespace neap::cuda
