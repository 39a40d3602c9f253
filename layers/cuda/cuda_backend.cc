#include "neap/layers/cuda/cuda_backend.h"

#include <cudnn.h>
#include <neap_described_devices.h>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/catalog/engine_cache.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/cuda_status.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/transposed_convolution.h"

namespace neap {
namespace cuda {

Runtime::~Runtime() {
  if (blas != nullptr) cublasLtDestroy(blas);
}

absl::Status StreamKernel::Run(const KernelArgs& args) {
  if (args.workspace_bytes < workspace_bytes_) {
    return absl::InternalError(absl::StrCat(ToString(signature_), " needs ", workspace_bytes_,
                                            " bytes of workspace, not ", args.workspace_bytes));
  }
  RETURN_IF_ERROR(CudaStatus(cudaSetDevice(runtime_->device), "cudaSetDevice"));
  return Launch({.signature = signature_, .run = args, .stream = runtime_->stream});
}

std::string ToString(const StepSignature& signature) {
  std::string text = absl::StrCat(std::string(signature.layer.type()), " ",
                                  std::string(Name(signature.phase)), " (");
  const char* separator = "";
  for (const OperandSpec& operand : signature.operands) {
    absl::StrAppend(&text, separator, ToString(operand.operand), " ", operand.tensor.ToString());
    separator = ", ";
  }
  return absl::StrCat(text, ")");
}

namespace {

class OwnStreamKernel final : public StreamKernel {
 public:
  OwnStreamKernel(SharedRuntime runtime, StepSignature signature, OwnLaunch launch)
      : StreamKernel(std::move(runtime), std::move(signature)), launch_(launch) {}

 protected:
  absl::Status Launch(const LaunchArgs& args) override {
    const cudaError_t error = launch_(args);
    if (error == cudaSuccess) return absl::OkStatus();
    return CudaStatus(error, ToString(signature()));
  }

 private:
  OwnLaunch launch_;
};

struct TableEntry {
  std::string_view type;
  CandidatesOf candidates;
};

constexpr TableEntry kTable[] = {
    {Convolution::kType, ConvolutionCandidates},
    {TransposedConvolution::kType, ConvolutionCandidates},
    {FullyConnected::kType, FullyConnectedCandidates},
    {BatchNorm::kType, BatchNormCandidates},
    {Relu::kType, ReluCandidates},
    {Sigmoid::kType, SigmoidCandidates},
    {Tanh::kType, TanhCandidates},
    {Dropout::kType, DropoutCandidates},
    {MaxPool::kType, MaxPoolCandidates},
    {AveragePool::kType, AveragePoolCandidates},
    {GlobalAveragePool::kType, GlobalAveragePoolCandidates},
    {LocalResponseNorm::kType, LrnCandidates},
    {SoftmaxCrossEntropy::kType, SoftmaxCandidates},
    {Add::kType, AddCandidates},
    {Concat::kType, ConcatCandidates},
    {Crop::kType, CropCandidates},
};

// The gradients of a convolution's parameters may be added to those of other images.
bool CanAdd(const StepSignature& signature, Slot slot) {
  return signature.CanAccumulate(slot) || (slot == Slot::kParamGrad && IsDivisible(signature));
}

// Every operand dense fp32 or tf32 (labels and indices aside), in one layout, and sums only where a
// kernel can add.
absl::Status CheckSupported(const StepSignature& signature) {
  for (const OperandSpec& operand : signature.operands) {
    const DType dtype = operand.tensor.dtype;
    if (dtype == DType::kFp16 || dtype == DType::kBf16) {
      return absl::UnimplementedError(
          absl::StrCat("no CUDA kernel for ", std::string(Name(dtype)), ": ", ToString(signature)));
    }
    if (operand.access == Access::kAccumulate && !CanAdd(signature, operand.operand.slot)) {
      return absl::UnimplementedError(absl::StrCat("no CUDA kernel that accumulates ",
                                                   ToString(operand.operand), ": ",
                                                   ToString(signature)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Candidates> CandidatesFor(const StepSignature& signature, CudnnConvolutions& cudnn) {
  RETURN_IF_ERROR(CheckSupported(signature));
  if (signature.phase == Phase::kUpdate) return SgdCandidates(signature, cudnn);
  if (signature.phase == Phase::kAddGradients) return AddGradientsCandidates(signature, cudnn);
  for (const TableEntry& entry : kTable) {
    if (entry.type == signature.layer.type()) return entry.candidates(signature, cudnn);
  }
  return absl::UnimplementedError(absl::StrCat("no CUDA kernel for ", ToString(signature)));
}

absl::StatusOr<std::vector<Engine>> EnginesOf(const StepSignature& signature,
                                              CudnnConvolutions& cudnn) {
  ASSIGN_OR_RETURN(const Candidates candidates, CandidatesFor(signature, cudnn));
  std::vector<Engine> engines;
  engines.reserve(candidates.size());
  for (const Candidate& candidate : candidates) engines.push_back(candidate.engine);
  return engines;
}

std::string LibraryVersions() {
  const size_t cudnn = cudnnGetVersion(), blas = cublasLtGetVersion();
  return absl::StrCat("cuDNN ", cudnn / 10000, ".", cudnn / 100 % 100, ".", cudnn % 100,
                      ", cuBLASLt ", blas / 10000, ".", blas / 100 % 100, ".", blas % 100);
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(SharedRuntime runtime) : runtime_(std::move(runtime)) {}

  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    return engines_.Get(signature,
                        [this](const StepSignature& s) { return EnginesOf(s, *runtime_->cudnn); });
  }
  std::string Versions() const override { return LibraryVersions(); }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override {
    RETURN_IF_ERROR(CudaStatus(cudaSetDevice(runtime_->device), "cudaSetDevice"));
    ASSIGN_OR_RETURN(const Candidates candidates, CandidatesFor(signature, *runtime_->cudnn));
    for (const Candidate& candidate : candidates) {
      if (candidate.engine.id != engine) continue;
      absl::StatusOr<std::unique_ptr<StreamKernel>> kernel = candidate.make(runtime_);
      if (!kernel.ok()) return engines_.Withdraw(signature, engine, kernel.status());
      (*kernel)->NeedWorkspace(candidate.engine.workspace_bytes);
      return *std::move(kernel);
    }
    return absl::NotFoundError(
        absl::StrCat("no engine '", std::string(engine), "' for ", ToString(signature)));
  }

 private:
  SharedRuntime runtime_;
  EngineCache engines_;
};

class CudnnCatalog final : public EngineCatalog {
 public:
  explicit CudnnCatalog(std::unique_ptr<CudnnConvolutions> cudnn) : cudnn_(std::move(cudnn)) {}
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    return engines_.Get(signature,
                        [this](const StepSignature& s) { return EnginesOf(s, *cudnn_); });
  }
  std::string Versions() const override { return LibraryVersions(); }

 private:
  std::unique_ptr<CudnnConvolutions> cudnn_;
  EngineCache engines_;
};

}  // namespace

Candidates OwnKernel(const StepSignature& signature, OwnLaunch launch, int64_t workspace_bytes) {
  const auto make =
      [signature,
       launch](const SharedRuntime& runtime) -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
    return std::make_unique<OwnStreamKernel>(runtime, signature, launch);
  };
  return {{.engine = {.id = std::string(kOwnEngine), .workspace_bytes = workspace_bytes},
           .make = make}};
}

kernels::ChannelShape ChannelShapeOf(const TensorSpec& tensor) {
  return {.outer = tensor.shape.n(),
          .channels = tensor.shape.c(),
          .inner = tensor.shape.h() * tensor.shape.w(),
          .channels_last = tensor.layout == Layout::kNhwc};
}

absl::Status CheckFits32(const StepSignature& signature, int64_t elements) {
  if (kernels::Fits32(elements)) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("no CUDA kernel that counts ", elements, " elements: ", ToString(signature)));
}

}  // namespace cuda

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(void* compute_stream) {
  auto runtime = std::make_shared<cuda::Runtime>();
  runtime->stream = static_cast<cudaStream_t>(compute_stream);
  RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&runtime->device), "cudaGetDevice"));
  if (const cublasStatus_t status = cublasLtCreate(&runtime->blas);
      status != CUBLAS_STATUS_SUCCESS) {
    return absl::InternalError(absl::StrCat("cublasLtCreate: ", cublasLtGetStatusString(status)));
  }
  ASSIGN_OR_RETURN(runtime->cudnn, CudnnConvolutions::ForDevice(compute_stream));
  return std::make_unique<cuda::CudaBackend>(std::move(runtime));
}

absl::StatusOr<std::unique_ptr<EngineCatalog>> MakeCudnnCatalog(
    std::string_view device_properties_json) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudnnConvolutions> cudnn,
                   CudnnConvolutions::ForDescribedDevice(device_properties_json));
  return std::make_unique<cuda::CudnnCatalog>(std::move(cudnn));
}

absl::StatusOr<std::string> CudnnDeviceProperties(std::string_view device) {
  if (device == "h200") return std::string(kH200DeviceProperties);
  return absl::NotFoundError(
      absl::StrCat("no cuDNN description of a device '", std::string(device), "'"));
}

}  // namespace neap
