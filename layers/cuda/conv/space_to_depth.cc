#include "neap/layers/cuda/conv/space_to_depth.h"

#include <string>
#include <utility>
#include <vector>

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

Extents EachAxis(const ConvolutionProblem& problem, const Extents& extents) {
  return extents.Along(problem.axes());
}

// The pixels that become one, along each axis: as many as the stride, or, of volumes without one,
// those of the window along W.
Extents BlockOf(const ConvolutionProblem& problem) {
  const bool gathers_taps = problem.axes() == kMaxSpatialAxes && problem.stride.AllAre(1);
  return gathers_taps ? Extents(1, 1, problem.weight.shape.w()) : EachAxis(problem, problem.stride);
}

// The rearranged shape of an image, or of a weight, whose filters count as images.
Shape DeepShape(const Shape& shape, const Extents& block, const std::vector<int64_t>& size,
                int64_t multiple) {
  return SpatialShape(shape.n(), RoundUp(shape.c() * block.product(), multiple), size);
}

ConvolutionProblem DeepProblem(const ConvolutionProblem& problem) {
  const Extents block = BlockOf(problem);
  const int64_t multiple = ChannelMultiple(problem.x.dtype);
  std::vector<int64_t> kernel, size;
  for (int i = 0; i < problem.axes(); ++i) {
    kernel.push_back(RoundUp(problem.weight.shape[2 + i], block[i]) / block[i]);
    size.push_back(problem.y.shape[2 + i] - 1 + kernel.back());  // large enough for every window
  }
  ConvolutionProblem deep = problem;
  deep.stride = 1;
  deep.padding = 0;
  deep.accumulate = false;  // DepthToSpace() adds
  deep.weight.shape = DeepShape(problem.weight.shape, block, kernel, multiple);
  deep.x.shape = DeepShape(problem.x.shape, block, size, multiple);
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

// Whether there are fewer products than with channels that are padded alone, as cuDNN does it, on
// tensor cores.
bool GathersEnoughTaps(const ConvolutionProblem& problem) {
  const int64_t channels = problem.x.shape.c(), taps = problem.weight.shape.w();
  const int64_t multiple = ChannelMultiple(problem.x.dtype);
  return problem.x.dtype != DType::kFp32 &&
         RoundUp(taps * channels, multiple) < taps * RoundUp(channels, multiple);
}

bool StrideIsInKernel(const ConvolutionProblem& problem) {
  for (int i = 0; i < problem.axes(); ++i) {
    if (problem.stride[i] > problem.weight.shape[2 + i]) return false;
  }
  return true;
}

std::string PrefixOf(const Extents& block) { return absl::StrCat("s2d", block.ToString(), "+"); }

// The step of blocks, and where the first one begins, are those of windows in x, and of the filter
// itself in a filter.
kernels::DepthShape DepthShapeOf(const TensorSpec& wide, const TensorSpec& deep,
                                 const Extents& block, const Extents& step,
                                 const Extents& padding) {
  const int axes = wide.shape.spatial_axes();
  return {.outer = wide.shape.n(),
          .channels = wide.shape.c(),
          .axes = axes,
          .d = wide.shape.d(),
          .h = wide.shape.h(),
          .w = wide.shape.w(),
          .deep_channels = deep.shape.c(),
          .deep_d = deep.shape.d(),
          .deep_h = deep.shape.h(),
          .deep_w = deep.shape.w(),
          .block_d = block.d(axes, 1),
          .block_h = block.h(),
          .block_w = block.w(),
          .step_d = step.d(axes, 1),
          .step_h = step.h(),
          .step_w = step.w(),
          .padding_d = padding.d(axes, 0),
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
        image_(
            DepthShapeOf(problem.x, deep.problem.x, deep.block, problem.stride, problem.padding)),
        filter_(DepthShapeOf(problem.weight, deep.problem.weight, deep.block, deep.block, 0)),
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
  const int64_t channels = problem.x.shape.c();
  const bool applies = channels <= kMaxCopiedChannels &&
                       channels % ChannelMultiple(problem.x.dtype) != 0 &&
                       problem.weight.shape.c() == channels && problem.dilation.AllAre(1) &&
                       problem.phase != Phase::kBackwardData;
  if (!applies) return std::nullopt;
  const bool helps = problem.stride.AllAre(1)
                         ? problem.axes() == kMaxSpatialAxes && GathersEnoughTaps(problem)
                         : StrideIsInKernel(problem);
  if (!helps) return std::nullopt;
  return SpaceToDepth{BlockOf(problem), DeepProblem(problem)};
}

bool SpaceToDepthIsFirstChoice(const ConvolutionProblem& problem) {
  const std::optional<SpaceToDepth> deep = FindSpaceToDepth(problem);
  return deep.has_value() && !problem.stride.AllAre(1) && problem.x.dtype != DType::kFp32 &&
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
