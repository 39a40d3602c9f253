// The layers that neap's own kernels run: from signature to launch.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/crop.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/dropout.h"
#include "neap/layers/lrn.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::cuda {
namespace {

using namespace operands;

template <auto kLaunch>
cudaError_t UnaryForward(const LaunchArgs& a) {
  return kLaunch(a.Get<float>(X()), a.Get<float>(Y()), a.Elements(Y()), a.stream);
}

template <auto kLaunch>
cudaError_t UnaryBackward(const LaunchArgs& a) {
  return kLaunch(a.Get<float>(Y()), a.Get<float>(Dy()), a.Get<float>(Dx()), a.Elements(Dx()),
                 a.stream);
}

template <auto kForward, auto kBackward>
Candidates Activation(const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  return OwnKernel(signature, forward ? UnaryForward<kForward> : UnaryBackward<kBackward>);
}

cudaError_t DropoutLaunch(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const float* const from = a.Get<float>(forward ? X() : Dy());
  float* const to = a.Get<float>(forward ? Y() : Dx());
  const int64_t n = a.Elements(forward ? Y() : Dx());
  const void* const scalars = a.Find<void>(Iteration());
  if (scalars == nullptr) {  // inference
    return from == to ? cudaSuccess : kernels::Add(&from, 1, to, n, a.stream);
  }
  const float probability = a.signature.layer.As<Dropout>()->probability;
  return kernels::Dropout(from, to, n, probability, a.signature.layer_seed, scalars, a.stream);
}

kernels::BatchNormOperands BatchNormReads(const LaunchArgs& a) {
  const bool training = a.signature.Has(Saved(0));
  return {.x = a.Get<float>(X()),
          .gamma = a.Get<float>(Param(0)),
          .beta = a.Find<float>(Param(1)),
          .mean = a.Get<float>(training ? Saved(0) : State(0)),
          .invstd = a.Get<float>(training ? Saved(1) : State(1))};
}

cudaError_t BatchNormForward(const LaunchArgs& a) {
  const BatchNorm& layer = *a.signature.layer.As<BatchNorm>();
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(X()));
  const kernels::BatchNormOperands in = BatchNormReads(a);
  if (!a.signature.Has(Saved(0))) {
    return kernels::BatchNormInference(shape, in, layer.epsilon, a.Get<float>(Y()), a.stream);
  }
  if (!a.signature.rerun) {
    const kernels::BatchNormState state = {a.Get<float>(Saved(0)), a.Get<float>(Saved(1)),
                                           a.Find<float>(State(0)), a.Find<float>(State(1))};
    const cudaError_t error = kernels::BatchNormStatistics(
        shape, in.x, layer.epsilon, layer.momentum, state, a.run.workspace, a.stream);
    if (error != cudaSuccess) return error;
  }
  return kernels::BatchNormApply(shape, in, a.Get<float>(Y()), a.stream);
}

cudaError_t BatchNormBackward(const LaunchArgs& a) {
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(X()));
  const kernels::BatchNormOperands in = BatchNormReads(a);
  const float* const dy = a.Get<float>(Dy());
  float* const dgamma = a.Get<float>(ParamGrad(0));
  float* const dbeta = a.Get<float>(ParamGrad(1));
  const cudaError_t error =
      kernels::BatchNormSums(shape, in, dy, dgamma, dbeta, a.run.workspace, a.stream);
  float* const dx = a.Find<float>(Dx());
  if (error != cudaSuccess || dx == nullptr) return error;
  return kernels::BatchNormBackward(shape, in, dy, dgamma, dbeta, dx, a.stream);
}

cudaError_t LrnLaunch(const LaunchArgs& a) {
  const LocalResponseNorm& layer = *a.signature.layer.As<LocalResponseNorm>();
  const kernels::LrnOptions options = {static_cast<int>(layer.size), layer.alpha, layer.beta,
                                       layer.k};
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(X()));
  const float* const x = a.Get<float>(X());
  if (a.signature.phase == Phase::kForward)
    return kernels::Lrn(shape, options, x, a.Get<float>(Y()), a.stream);
  return kernels::LrnBackward(shape, options, x, a.Get<float>(Dy()), a.Get<float>(Dx()), a.stream);
}

cudaError_t SoftmaxLaunch(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(Y()));
  const int32_t* const labels = a.Find<int32_t>(X(1));
  if (!forward) {
    return kernels::SoftmaxCrossEntropyBackward(shape, a.Get<float>(Y()), labels,
                                                a.Get<float>(Dx()), a.stream);
  }
  float* const metrics = a.signature.rerun ? nullptr : a.Find<float>(State(0));
  return kernels::SoftmaxCrossEntropy(shape, a.Get<float>(X()),
                                      metrics == nullptr ? nullptr : labels, a.Get<float>(Y()),
                                      metrics, a.run.workspace, a.stream);
}

// Operands of one slot, in the order of the signature.
template <typename F>
void ForEachOfSlot(const StepSignature& signature, Slot slot, F f) {
  for (size_t i = 0; i < signature.operands.size(); ++i) {
    if (signature.operands[i].operand.slot == slot) f(signature.operands[i], i);
  }
}

cudaError_t AddForward(const LaunchArgs& a) {
  std::array<const float*, kernels::kMostAddends> inputs = {};
  int count = 0;
  ForEachOfSlot(a.signature, Slot::kInput, [&](const OperandSpec&, size_t i) {
    inputs[static_cast<size_t>(count++)] = static_cast<const float*>(a.run.operands[i]);
  });
  return kernels::Add(inputs.data(), count, a.Get<float>(Y()), a.Elements(Y()), a.stream);
}

cudaError_t AddGradients(const LaunchArgs& a) {
  float* const sum = a.Get<float>(Dx());
  const float* const terms[] = {sum, a.Get<float>(Addend())};
  return kernels::Add(terms, 2, sum, a.Elements(Dx()), a.stream);
}

// Copies before sums, because two inputs may be one tensor.
cudaError_t AddBackward(const LaunchArgs& a) {
  const float* const dy = a.Get<float>(Dy());
  const int64_t n = a.Elements(Dy());
  cudaError_t error = cudaSuccess;
  for (Access access : {Access::kWrite, Access::kAccumulate}) {
    ForEachOfSlot(a.signature, Slot::kInputGrad, [&](const OperandSpec& operand, size_t i) {
      if (operand.access != access || error != cudaSuccess) return;
      float* const dx = static_cast<float*>(a.run.operands[i]);
      const float* const terms[] = {dx, dy};
      error = access == Access::kWrite ? kernels::Add(&dy, 1, dx, n, a.stream)
                                       : kernels::Add(terms, 2, dx, n, a.stream);
    });
  }
  return error;
}

// y is `rows` rows of `length` elements; an input has `per_channel` times its channels in each.
struct Concatenation {
  int64_t rows, length, per_channel;
};
Concatenation ConcatenationOf(const TensorSpec& y) {
  const int64_t pixels = y.shape.h() * y.shape.w();
  if (y.layout == Layout::kNhwc) return {y.shape.n() * pixels, y.shape.c(), 1};
  return {y.shape.n(), y.shape.c() * pixels, pixels};
}

cudaError_t ConcatLaunch(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const Operand whole = forward ? Y() : Dy();
  const Concatenation concat = ConcatenationOf(a.signature.Spec(whole));
  float* joined = a.Get<float>(whole);
  cudaError_t error = cudaSuccess;
  for (int index = 0; error == cudaSuccess; ++index) {
    const std::optional<size_t> i =
        a.signature.Find({forward ? Slot::kInput : Slot::kInputGrad, index});
    if (!i) break;
    const OperandSpec& operand = a.signature.operands[*i];
    float* const part = static_cast<float*>(a.run.operands[*i]);
    const int64_t width = operand.tensor.shape.c() * concat.per_channel;
    const kernels::RowCopy copy = {.rows = concat.rows,
                                   .width = width,
                                   .in_stride = forward ? width : concat.length,
                                   .out_stride = forward ? concat.length : width,
                                   .accumulate = operand.access == Access::kAccumulate};
    error = forward ? kernels::CopyRows(copy, part, joined, a.stream)
                    : kernels::CopyRows(copy, joined, part, a.stream);
    joined += width;
  }
  return error;
}

cudaError_t CropLaunch(const LaunchArgs& a) {
  const Crop& layer = *a.signature.layer.As<Crop>();
  const bool forward = a.signature.phase == Phase::kForward;
  const TensorSpec& whole = a.signature.Spec(forward ? X() : Dx());
  const bool last = whole.layout == Layout::kNhwc;
  const kernels::CropShape shape = {
      .outer = last ? whole.shape.n() : whole.shape.n() * whole.shape.c(),
      .channels = last ? whole.shape.c() : 1,
      .h = whole.shape.h(),
      .w = whole.shape.w(),
      .top = layer.offset.h,
      .left = layer.offset.w,
      .height = layer.size.h,
      .width = layer.size.w};
  if (forward) return kernels::Crop(shape, a.Get<float>(X()), a.Get<float>(Y()), a.stream);
  return kernels::CropBackward(shape, a.Get<float>(Dy()), a.Get<float>(Dx()), a.stream);
}

cudaError_t SgdLaunch(const LaunchArgs& a) {
  const Sgd& sgd = a.signature.sgd;
  cudaError_t error = cudaSuccess;
  for (int first = 0; error == cudaSuccess && a.signature.Has(Param(first));
       first += kernels::kMostUpdates) {
    kernels::SgdTensors tensors;
    for (int k = first; k < first + kernels::kMostUpdates && a.signature.Has(Param(k)); ++k) {
      const int slot = tensors.count++;
      tensors.parameters[slot] = a.Get<float>(Param(k));
      tensors.gradients[slot] = a.Get<float>(ParamGrad(k));
      tensors.velocities[slot] = a.Find<float>(Optimizer(k));
      tensors.elements[slot] = a.Elements(Param(k));
    }
    error = kernels::SgdUpdate(tensors, sgd.momentum, sgd.weight_decay, a.Get<void>(Iteration()),
                               a.stream);
  }
  return error;
}

}  // namespace

absl::StatusOr<Candidates> ReluCandidates(const StepSignature& signature, CudnnConvolutions&) {
  return Activation<kernels::Relu, kernels::ReluBackward>(signature);
}
absl::StatusOr<Candidates> SigmoidCandidates(const StepSignature& signature, CudnnConvolutions&) {
  return Activation<kernels::Sigmoid, kernels::SigmoidBackward>(signature);
}
absl::StatusOr<Candidates> TanhCandidates(const StepSignature& signature, CudnnConvolutions&) {
  return Activation<kernels::Tanh, kernels::TanhBackward>(signature);
}
absl::StatusOr<Candidates> DropoutCandidates(const StepSignature& signature, CudnnConvolutions&) {
  return OwnKernel(signature, DropoutLaunch);
}

absl::StatusOr<Candidates> BatchNormCandidates(const StepSignature& signature, CudnnConvolutions&) {
  const kernels::ChannelShape shape = ChannelShapeOf(signature.Spec(X()));
  const bool forward = signature.phase == Phase::kForward;
  const bool reduces = !forward || (signature.Has(Saved(0)) && !signature.rerun);
  if (reduces) RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  return OwnKernel(signature, forward ? BatchNormForward : BatchNormBackward,
                   reduces ? kernels::ChannelScratchBytes(shape) : 0);
}

absl::StatusOr<Candidates> LrnCandidates(const StepSignature& signature, CudnnConvolutions&) {
  const kernels::ChannelShape shape = ChannelShapeOf(signature.Spec(X()));
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  const int64_t size = signature.layer.As<LocalResponseNorm>()->size;
  if (size <= kernels::kLargestLrnSize) return OwnKernel(signature, LrnLaunch);
  return absl::UnimplementedError(absl::StrCat("no CUDA kernel for lrn over ", size,
                                               " channels: at most ", kernels::kLargestLrnSize));
}

absl::StatusOr<Candidates> SoftmaxCandidates(const StepSignature& signature, CudnnConvolutions&) {
  const TensorSpec& y = signature.Spec(Y());
  const int64_t labels = y.elements() / y.shape.c();
  RETURN_IF_ERROR(CheckFits32(signature, labels == y.shape.n() ? y.elements() : labels));
  const bool measures = signature.Has(State(0)) && !signature.rerun;
  const int64_t scratch = kernels::SoftmaxScratchBytes(ChannelShapeOf(signature.Spec(Y())));
  return OwnKernel(signature, SoftmaxLaunch, measures ? scratch : 0);
}

absl::StatusOr<Candidates> AddCandidates(const StepSignature& signature, CudnnConvolutions&) {
  if (signature.phase != Phase::kForward) return OwnKernel(signature, AddBackward);
  int64_t inputs = 0;
  ForEachOfSlot(signature, Slot::kInput, [&](const OperandSpec&, size_t) { ++inputs; });
  if (inputs <= kernels::kMostAddends) return OwnKernel(signature, AddForward);
  return absl::UnimplementedError(
      absl::StrCat("no CUDA kernel adds ", inputs, " tensors: at most ", kernels::kMostAddends));
}

absl::StatusOr<Candidates> AddGradientsCandidates(const StepSignature& signature,
                                                  CudnnConvolutions&) {
  return OwnKernel(signature, AddGradients);
}

absl::StatusOr<Candidates> ConcatCandidates(const StepSignature& signature, CudnnConvolutions&) {
  if (signature.phase == Phase::kForward) return OwnKernel(signature, ConcatLaunch);
  int64_t channels = 0;
  ForEachOfSlot(signature, Slot::kInputGrad,
                [&](const OperandSpec& operand, size_t) { channels += operand.tensor.shape.c(); });
  if (channels == signature.Spec(Dy()).shape.c()) return OwnKernel(signature, ConcatLaunch);
  return absl::UnimplementedError(
      "the CUDA kernel of concat backward_data needs the gradients of all inputs");
}

absl::StatusOr<Candidates> CropCandidates(const StepSignature& signature, CudnnConvolutions&) {
  return OwnKernel(signature, CropLaunch);
}

absl::StatusOr<Candidates> SgdCandidates(const StepSignature& signature, CudnnConvolutions&) {
  return OwnKernel(signature, SgdLaunch);
}

}  // namespace neap::cuda
