// Convolutions with a folded batch norm: large matrix products by cuBLASLt, and kernels for the
// small matrices between them.
//
// cuBLAS is column-major, and reads a row-major matrix as its transpose: x' is {C, n}, y' and dz'
// {K, n}, and F' {C, K}.
//
//   forward          x' x'^T in parts, then  y' = F'^T x' + b + x_1', and the ReLU
//   backward_params  x' dz'^T in parts       backward_data  dx' = -M x' + v,  dx' += F' dz'
//
// In fp32 and tf32, where products that add x_1 are slow, y' is W'^T x' first, and a pass over it
// normalises it and adds x_1.
//
// A part of a sum over pixels is the product of as many rows as the others.
#include "neap/layers/fusion/folded_convolution.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/image_parts.h"
#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/folded_convolution.h"
#include "neap/layers/cuda/matmul/biased_matmul.h"
#include "neap/layers/cuda/matmul/matmul.h"

namespace neap::cuda {
namespace {

using namespace operands;
using kernels::FoldedShape;

// One engine, because forward and its rerun, which have different signatures, must agree in their
// bits. The products have so many rows that cuBLAS need not split a sum in a workspace.
constexpr std::string_view kEngine = "cublaslt-0";

FoldedShape ShapeOf(const StepSignature& signature) {
  const TensorSpec& x = signature.Spec(X(0));
  return {x.elements() / x.shape.c(), x.shape.c(), signature.Spec(Param(0)).shape.n()};
}

// The parts of a sum over pixels that is {in, columns}: the most, dividing the pixels, that are not
// more than fill the GPU.
int64_t PartsOf(const FoldedShape& s, int64_t columns) {
  const auto tiles = [](int64_t size) { return (size + kTile - 1) / kTile; };
  int64_t parts = std::max<int64_t>(1, kWantedTiles / (tiles(s.in) * tiles(columns)));
  while (s.pixels % parts != 0) --parts;
  return parts;
}

// Whether forward stores the convolution's result in y, and normalises it there.
bool NormalisesApart(const StepSignature& signature) {
  return SizeOf(signature.Spec(X(0)).dtype) == 4 && signature.Has(X(1));
}

// The gradient of what is normalised.
Operand GradientOf(const StepSignature& signature) { return signature.Has(Dz()) ? Dz() : Dy(); }

// The sum of x' times the transpose of a matrix of as many columns.
MatmulShape SumShape(const FoldedShape& s, int64_t columns, DType dtype) {
  const int64_t parts = PartsOf(s, columns), pixels = s.pixels / parts;
  const auto fits = [&](int64_t channels) { return pixels * channels * SizeOf(dtype) % 16 == 0; };
  const bool aligned = fits(s.in) && fits(columns);
  return {.transpose_b = true,
          .m = s.in,
          .n = columns,
          .k = pixels,
          .batch = parts,
          .stride_a = pixels * s.in,
          .stride_b = pixels * columns,
          .stride_c = s.in * columns,
          .alignment = aligned ? 16U : static_cast<uint32_t>(SizeOf(dtype))};
}

// Places of scratch arrays in the workspace, one behind the other. Without a workspace they are
// only counted.
class Scratch {
 public:
  explicit Scratch(std::byte* workspace) : workspace_(workspace) {}
  std::byte* Take(int64_t bytes) {
    std::byte* const taken = workspace_ == nullptr ? nullptr : workspace_ + taken_;
    taken_ += RoundUp(bytes, kWorkspaceAlignment);
    return taken;
  }
  float* TakeFloats(int64_t count) {
    return reinterpret_cast<float*>(Take(count * static_cast<int64_t>(sizeof(float))));
  }
  kernels::Array TakeArray(int64_t count, DType dtype) {
    return {Take(count * SizeOf(dtype)), ElementOf(dtype)};
  }
  int64_t taken_bytes() const { return taken_; }

 private:
  std::byte* const workspace_;
  int64_t taken_ = 0;
};

// The scratch arrays of each phase.
struct ForwardScratch {
  ForwardScratch(const StepSignature& signature, Scratch& scratch) {
    const FoldedShape s = ShapeOf(signature);
    const TensorSpec& x = signature.Spec(X(0));
    if (NormalisesApart(signature)) {
      mean = scratch.TakeFloats(s.out);
    } else {
      folded = scratch.TakeArray(s.out * s.in, x.dtype);
      bias = scratch.TakeArray(s.out, x.dtype);
      wide_bias = scratch.TakeFloats(s.out);
    }
    if (!signature.Has(Saved(2)) || signature.rerun) return;
    sums = scratch.TakeFloats(s.in);
    product = scratch.TakeFloats(s.out * s.in);
    parts = scratch.TakeFloats(PartsOf(s, s.in) * s.in * s.in);
    reduction = scratch.Take(kernels::ChannelScratchBytes(ChannelShapeOf(x), ElementOf(x.dtype)));
  }
  kernels::Array folded, bias;
  float *wide_bias = nullptr, *mean = nullptr;
  float *sums = nullptr, *product = nullptr, *parts = nullptr;
  std::byte* reduction = nullptr;
};
struct ParamsScratch {
  ParamsScratch(const StepSignature& signature, Scratch& scratch) {
    const FoldedShape s = ShapeOf(signature);
    product = scratch.TakeFloats(s.out * s.in);
    parts = scratch.TakeFloats(PartsOf(s, s.out) * s.out * s.in);
    if (!signature.Has(Dy())) return;
    const TensorSpec& dy = signature.Spec(Dy());
    reduction = scratch.Take(kernels::ChannelScratchBytes(ChannelShapeOf(dy), ElementOf(dy.dtype)));
  }
  float *product, *parts;
  std::byte* reduction = nullptr;  // without a ReLU
};
struct DataScratch {
  DataScratch(const StepSignature& signature, Scratch& scratch) {
    const FoldedShape s = ShapeOf(signature);
    const DType dtype = signature.Spec(X(0)).dtype;
    folded = scratch.TakeArray(s.out * s.in, dtype);
    projection = scratch.TakeArray(s.in * s.in, dtype);
    shift = scratch.TakeArray(s.in, dtype);
    wide_shift = scratch.TakeFloats(s.in);
    parts = scratch.Take(kernels::ProjectionScratchBytes(s));
  }
  kernels::Array folded, projection, shift;
  float* wide_shift;
  std::byte* parts;
};

template <typename Phase>
int64_t ScratchBytes(const StepSignature& signature) {
  Scratch scratch(nullptr);
  Phase(signature, scratch);
  return scratch.taken_bytes();
}

class FoldedKernel final : public StreamKernel {
 public:
  FoldedKernel(SharedRuntime runtime, const StepSignature& signature)
      : StreamKernel(std::move(runtime), signature),
        shape_(ShapeOf(signature)),
        dtype_(signature.Spec(X(0)).dtype) {}

  absl::Status Build() {
    const auto& [pixels, in, out] = shape_;
    switch (signature().phase) {
      case Phase::kForward: {
        const MatmulShape shape = {.transpose_a = true, .m = out, .n = pixels, .k = in};
        if (NormalisesApart(signature())) {
          ASSIGN_OR_RETURN(linear_, Matmul::Build(runtime(), shape, dtype_));
        } else {
          RETURN_IF_ERROR(biased_.Build(runtime(), shape, dtype_,
                                        {.relu = relu(), .mask = signature().Has(Saved(3))}));
        }
        // A variance is a small difference of large sums, so TF32 is not exact enough for them.
        const DType summed = dtype_ == DType::kTf32 ? DType::kFp32 : dtype_;
        return IsFirstRun() ? BuildSum(in, summed) : absl::OkStatus();
      }
      case Phase::kBackwardParams:
        return BuildSum(out, dtype_);
      default: {
        RETURN_IF_ERROR(biased_.Build(runtime(), {.m = in, .n = pixels, .k = in}, dtype_));
        ASSIGN_OR_RETURN(product_,
                         Matmul::Build(runtime(), {.m = in, .n = pixels, .k = out}, dtype_));
        return absl::OkStatus();
      }
    }
  }

 protected:
  absl::Status Launch(const LaunchArgs& args) override {
    Scratch scratch(static_cast<std::byte*>(args.run.workspace));
    switch (signature().phase) {
      case Phase::kForward:
        return Forward(args, {signature(), scratch});
      case Phase::kBackwardParams:
        return BackwardParams(args, {signature(), scratch});
      default:
        return BackwardData(args, {signature(), scratch});
    }
  }

 private:
  absl::Status BuildSum(int64_t columns, DType operands) {
    ASSIGN_OR_RETURN(product_, Matmul::Build(runtime(), SumShape(shape_, columns, dtype_),
                                             {operands, DType::kFp32}));
    return absl::OkStatus();
  }
  bool relu() const { return signature().layer.As<FoldedConvolution>()->relu; }
  bool IsFirstRun() const { return signature().Has(Saved(2)) && !signature().rerun; }

  kernels::FoldedNorm NormOf(const LaunchArgs& args) const {
    return {args.Get<float>(Param(1)), args.Find<float>(Param(2)), args.Find<float>(Saved(0)),
            args.Find<float>(Saved(1)), relu()};
  }

  absl::Status Forward(const LaunchArgs& args, const ForwardScratch& scratch) const {
    const BatchNorm& norm = signature().layer.As<FoldedConvolution>()->norm;
    const kernels::FoldedStatistics statistics = {scratch.product, args.Find<float>(State(0)),
                                                  args.Find<float>(State(1)), norm.epsilon,
                                                  norm.momentum};
    if (IsFirstRun()) RETURN_IF_ERROR(Moments(args, scratch));
    const kernels::FoldedStatistics* const first = IsFirstRun() ? &statistics : nullptr;
    if (NormalisesApart(signature())) return ForwardApart(args, scratch, first);
    const auto fold = [&] {
      const kernels::Array weight = args.Array(Param(0));
      if (signature().mode == Mode::kInference) {
        return kernels::FoldRunning(shape_, weight, NormOf(args), statistics, scratch.folded,
                                    scratch.bias, args.stream);
      }
      return kernels::Fold(shape_, weight, NormOf(args), first, scratch.folded, scratch.bias,
                           args.stream);
    };
    RETURN_IF_ERROR(CudaStatus(fold(), "folding a weight"));
    return biased_.Run({.a = scratch.folded.data,
                        .b = args.Get<void>(X(0)),
                        .c = args.Get<void>(Y()),
                        .addend = args.Find<void>(X(1)),
                        .bias = scratch.bias.data,
                        .mask = args.Find<void>(Saved(3))},
                       scratch.wide_bias, args.stream);
  }

  // `first`: what the first run in training computes of the statistics.
  absl::Status ForwardApart(const LaunchArgs& args, const ForwardScratch& scratch,
                            const kernels::FoldedStatistics* first) const {
    const kernels::Array weight = args.Array(Param(0)), y = args.Array(Y());
    const bool inference = signature().mode == Mode::kInference;
    const kernels::FoldedNorm norm = NormOf(args);
    if (!inference) {
      RETURN_IF_ERROR(
          CudaStatus(kernels::FoldedMean(shape_, weight, norm, first, scratch.mean, args.stream),
                     "mean of a folded convolution"));
    }
    RETURN_IF_ERROR(linear_->Run({.a = weight.data, .b = args.Get<void>(X(0)), .c = y.data}));
    const kernels::BatchNormOperands in = {
        .x = y,
        .gamma = norm.gamma,
        .beta = norm.beta,
        .mean = inference ? args.Get<float>(State(0)) : scratch.mean,
        .invstd = inference ? args.Get<float>(State(1)) : norm.invstd,
        .from_variance = inference,
        .epsilon = signature().layer.As<FoldedConvolution>()->norm.epsilon};
    const kernels::BatchNormEpilogue epilogue = {.addend = {.x = args.FindArray(X(1))},
                                                 .relu = relu(),
                                                 .mask = args.Find<uint8_t>(Saved(3))};
    return CudaStatus(kernels::BatchNormApply(ChannelShapeOf(signature().Spec(Y())), in, epilogue,
                                              y, args.stream),
                      "batch norm of a folded convolution");
  }

  // The mean and the covariance of x, and W cov.
  absl::Status Moments(const LaunchArgs& args, const ForwardScratch& scratch) const {
    const kernels::ReductionMemory memory = {scratch.reduction, args.tickets};
    const kernels::Array x = args.Array(X(0));
    RETURN_IF_ERROR(
        CudaStatus(kernels::BiasGradient(ChannelShapeOf(signature().Spec(X(0))), x, scratch.sums,
                                         /*add=*/false, memory, args.stream),
                   "sums of channels"));
    RETURN_IF_ERROR(product_->Run({x.data, x.data, scratch.parts}));
    float* const cov = args.Get<float>(Saved(2));
    RETURN_IF_ERROR(CudaStatus(
        kernels::FoldedMoments(shape_, scratch.sums, scratch.parts, PartsOf(shape_, shape_.in),
                               args.Get<float>(Saved(0)), cov, args.stream),
        "covariance"));
    return CudaStatus(
        kernels::FoldedProduct(shape_, args.Array(Param(0)), cov, scratch.product, args.stream),
        "weight times covariance");
  }

  absl::Status BackwardParams(const LaunchArgs& args, const ParamsScratch& scratch) const {
    const Operand gradient = GradientOf(signature());
    float* const dbeta = args.Get<float>(ParamGrad(2));
    if (gradient == Dy()) {
      const kernels::ReductionMemory memory = {scratch.reduction, args.tickets};
      RETURN_IF_ERROR(CudaStatus(
          kernels::BiasGradient(ChannelShapeOf(signature().Spec(Dy())), args.Array(Dy()), dbeta,
                                /*add=*/false, memory, args.stream),
          "sums of channels"));
    }
    RETURN_IF_ERROR(product_->Run({args.Get<void>(X(0)), args.Get<void>(gradient), scratch.parts}));
    const kernels::Array weight = args.Array(Param(0));
    RETURN_IF_ERROR(CudaStatus(kernels::FoldedProduct(shape_, weight, args.Get<float>(Saved(2)),
                                                      scratch.product, args.stream),
                               "weight times covariance"));
    return CudaStatus(kernels::FoldedWeightGradient(
                          shape_, weight, NormOf(args), scratch.product, dbeta, scratch.parts,
                          PartsOf(shape_, shape_.out), args.Get<float>(ParamGrad(0)),
                          args.Get<float>(ParamGrad(1)), args.stream),
                      "gradient of a folded weight");
  }

  absl::Status BackwardData(const LaunchArgs& args, const DataScratch& scratch) const {
    const kernels::Array weight = args.Array(Param(0));
    const kernels::FoldedNorm norm = NormOf(args);
    RETURN_IF_ERROR(
        CudaStatus(kernels::Fold(shape_, weight, norm, nullptr, scratch.folded, {}, args.stream),
                   "folding a weight"));
    RETURN_IF_ERROR(
        CudaStatus(kernels::FoldedProjection(shape_, weight, norm, args.Get<float>(ParamGrad(1)),
                                             scratch.parts, scratch.projection, args.stream),
                   "projection of a batch norm"));
    RETURN_IF_ERROR(
        CudaStatus(kernels::FoldedShift(shape_, scratch.folded, scratch.projection, norm.mean,
                                        args.Get<float>(ParamGrad(2)), scratch.shift, args.stream),
                   "shift of a gradient"));
    void* const dx = args.Get<void>(Dx(0));
    RETURN_IF_ERROR(biased_.Run({.a = scratch.projection.data,
                                 .b = args.Get<void>(X(0)),
                                 .c = dx,
                                 .bias = scratch.shift.data,
                                 .factor = 1 / kernels::ProjectionFactor(shape_)},
                                scratch.wide_shift, args.stream));
    return product_->Run({.a = scratch.folded.data,
                          .b = args.Get<void>(GradientOf(signature())),
                          .c = dx,
                          .addend = dx});
  }

  FoldedShape shape_;
  DType dtype_;
  BiasedMatmul biased_;              // with x
  std::unique_ptr<Matmul> linear_;   // W x, if the result is normalised apart
  std::unique_ptr<Matmul> product_;  // the sum over pixels, or with dz
};

int64_t ScratchBytesOf(const StepSignature& signature) {
  if (signature.phase == Phase::kForward) return ScratchBytes<ForwardScratch>(signature);
  return signature.phase == Phase::kBackwardParams ? ScratchBytes<ParamsScratch>(signature)
                                                   : ScratchBytes<DataScratch>(signature);
}

cudaError_t MaskedGradient(const LaunchArgs& a) {
  return kernels::MaskedGradient(ChannelShapeOf(a.signature.Spec(Dz())), a.Array(Dy()),
                                 a.FindArray(Dy(1)), a.Get<uint8_t>(Saved(3)), a.Array(Dz()),
                                 a.Get<float>(ParamGrad(2)), a.Reduction(), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> FoldedConvolutionCandidates(const StepSignature& signature,
                                                       const SharedRuntime& runtime) {
  const bool activation = signature.phase == Phase::kBackwardActivation;
  const TensorSpec& reduced = signature.Spec(activation ? Dz() : X(0));
  const kernels::ChannelShape channels = ChannelShapeOf(reduced);
  RETURN_IF_ERROR(CheckFits32(signature, channels.outer * channels.inner));
  if (activation) {
    return OwnKernel(signature, runtime, MaskedGradient,
                     kernels::ChannelScratchBytes(channels, ElementOf(reduced.dtype)));
  }
  const auto make = [signature, runtime]() -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
    auto kernel = std::make_unique<FoldedKernel>(runtime, signature);
    RETURN_IF_ERROR(kernel->Build());
    return kernel;
  };
  return Candidates{StreamCandidate(
      {.id = std::string(kEngine), .workspace_bytes = ScratchBytesOf(signature)}, make)};
}

}  // namespace neap::cuda
