// Convolutions of the CPU's backend, in the place of cuDNN's. They add in fp32, also in the place
// of those that add in fp16. Those with a bias and a ReLU round twice, unlike cuDNN's.
#include <utility>

#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"

namespace neap {
namespace {

using namespace operands;

// The same step of a convolution without bias. Its operands are x or dx, the weight or its
// gradient, and y or dy.
StepSignature SignatureOf(const ConvolutionProblem& p) {
  const bool forward = p.phase == Phase::kForward, data = p.phase == Phase::kBackwardData;
  const Access params = p.accumulate ? Access::kAccumulate : Access::kWrite;
  const bool gradient = p.phase == Phase::kBackwardParams;
  return {.layer = Convolution{.out_channels = p.y.shape.c(),
                               .kernel = Extents::Of(p.weight.shape.spatial()),
                               .stride = p.stride,
                               .padding = p.padding,
                               .dilation = p.dilation,
                               .groups = p.x.shape.c() / p.weight.shape.c(),
                               .bias = false},
          .phase = p.phase,
          .operands = {
              {data ? Dx() : X(), p.x, data ? Access::kWrite : Access::kRead},
              {gradient ? ParamGrad(0) : Param(0), p.weight, gradient ? params : Access::kRead},
              {forward ? Y() : Dy(), p.y, forward ? Access::kWrite : Access::kRead}}};
}

// y = relu(y + bias)
template <typename T>
void AddBiasAndRelu(const TensorSpec& spec, const void* bias, void* y) {
  T* const values = static_cast<T*>(y);
  const T* const biases = static_cast<const T*>(bias);
  const int64_t inner = spec.layout == Layout::kChannelsLast ? 1 : spec.shape.positions();
  for (int64_t i = 0; i < spec.elements(); ++i) {
    const int64_t channel = i / inner % spec.shape.c();
    const float sum = static_cast<float>(values[i]) + static_cast<float>(biases[channel]);
    values[i] = T(sum <= 0 ? 0 : sum);
  }
}

class CpuPlan final : public ConvolutionPlan {
 public:
  CpuPlan(ConvolutionProblem problem, std::unique_ptr<Kernel> kernel, int64_t workspace_bytes)
      : problem_(std::move(problem)),
        kernel_(std::move(kernel)),
        workspace_bytes_(workspace_bytes),
        workspace_(new (std::align_val_t{kWorkspaceAlignment})
                       std::byte[static_cast<size_t>(workspace_bytes)]) {}

  absl::Status Execute(const ConvolutionPointers& pointers, void*) override {
    void* const operands[] = {pointers.x, pointers.weight, pointers.y};
    RETURN_IF_ERROR(kernel_->Run({.operands = operands,
                                  .workspace = workspace_.get(),
                                  .workspace_bytes = workspace_bytes_}));
    if (!problem_.relu) return absl::OkStatus();
    const DType dtype = problem_.y.dtype;
    if (dtype == DType::kFp16) {
      AddBiasAndRelu<Fp16>(problem_.y, pointers.bias, pointers.y);
    } else if (dtype == DType::kBf16) {
      AddBiasAndRelu<Bf16>(problem_.y, pointers.bias, pointers.y);
    } else {
      AddBiasAndRelu<float>(problem_.y, pointers.bias, pointers.y);
    }
    return absl::OkStatus();
  }

 private:
  struct Deleter {
    void operator()(std::byte* bytes) const {
      ::operator delete[](bytes, std::align_val_t{kWorkspaceAlignment});
    }
  };
  ConvolutionProblem problem_;
  std::unique_ptr<Kernel> kernel_;
  int64_t workspace_bytes_;
  std::unique_ptr<std::byte[], Deleter> workspace_;
};

class CpuConvolutions final : public CudnnConvolutions {
 public:
  size_t Version() const override { return 0; }
  absl::StatusOr<std::vector<Engine>> Engines(const ConvolutionProblem& problem) override {
    RETURN_IF_ERROR(cpu_->Engines(SignatureOf(problem)).status());
    // In 16 bits it says that it uses tensor cores, so that plans prefer it with a ReLU.
    const bool half = problem.x.dtype != DType::kFp32;
    return std::vector<Engine>{
        {.id = "cpu", .notes = half ? "tensor-core" : "", .uses_tensor_cores = half}};
  }
  absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Build(const ConvolutionProblem& problem,
                                                         std::string_view) override {
    const StepSignature signature = SignatureOf(problem);
    ASSIGN_OR_RETURN(const std::vector<Engine> engines, cpu_->Engines(signature));
    ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                     cpu_->MakeKernel(signature, engines.front().id));
    return std::make_unique<CpuPlan>(problem, std::move(kernel), engines.front().workspace_bytes);
  }

 private:
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend();
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnConvolutions>> CudnnConvolutions::ForDevice(
    void*, std::shared_ptr<EngineLists>) {
  return std::make_unique<CpuConvolutions>();
}
absl::StatusOr<std::unique_ptr<CudnnConvolutions>> CudnnConvolutions::ForDescribedDevice(
    std::string_view, std::shared_ptr<EngineLists>) {
  return absl::UnimplementedError("the emulation describes no GPU");
}

}  // namespace neap
