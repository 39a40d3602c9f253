#include "neap/layers/cuda/cuda_backend.h"

#include <cudnn.h>
#include <neap_described_devices.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/catalog/table_backend.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/cuda_status.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fused_batch_norm.h"
#include "neap/layers/fused_relu.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/transposed_convolution.h"

namespace neap {
namespace cuda {
namespace {

struct TableEntry {
  RowLayer layer;
  CandidatesOf candidates;
  std::optional<Phase> phase = std::nullopt;  // nullopt: the function handles every phase
};

constexpr TableEntry kTable[] = {
    {kAnyLayer, CheckGradientsCandidates, Phase::kCheckGradients},
    {kAnyLayer, SgdCandidates, Phase::kUpdate},
    {kAnyLayer, UpdateScaleCandidates, Phase::kUpdateScale},
    {kAnyLayer, AddGradientsCandidates, Phase::kAddGradients},
    {kLayer<Convolution>, ConvolutionCandidates},
    {kLayer<TransposedConvolution>, ConvolutionCandidates},
    {kLayer<FullyConnected>, FullyConnectedCandidates},
    {kLayer<BatchNorm>, BatchNormCandidates},
    {kLayer<FusedBatchNorm>, BatchNormCandidates},
    {kLayer<FusedRelu>, FusedReluCandidates},
    {kLayer<Relu>, ReluCandidates},
    {kLayer<Sigmoid>, SigmoidCandidates},
    {kLayer<Tanh>, TanhCandidates},
    {kLayer<Dropout>, DropoutCandidates},
    {kLayer<MaxPool>, MaxPoolCandidates},
    {kLayer<AveragePool>, AveragePoolCandidates},
    {kLayer<GlobalAveragePool>, GlobalAveragePoolCandidates},
    {kLayer<LocalResponseNorm>, LrnCandidates},
    {kLayer<SoftmaxCrossEntropy>, SoftmaxCandidates},
    {kLayer<Add>, AddCandidates},
    {kLayer<Concat>, ConcatCandidates},
    {kLayer<Crop>, CropCandidates},
};

std::string LibraryVersions() {
  const size_t cudnn = cudnnGetVersion(), blas = cublasLtGetVersion();
  return absl::StrCat("cuDNN ", cudnn / 10000, ".", cudnn / 100 % 100, ".", cudnn % 100,
                      ", cuBLASLt ", blas / 10000, ".", blas / 100 % 100, ".", blas % 100);
}

// The table for listing engines; `runtime` need not have a GPU.
KernelTable Table(const SharedRuntime& runtime) {
  KernelTable table = {.device = "CUDA", .versions = LibraryVersions(), .adds_parts = true};
  for (const TableEntry& entry : kTable) {
    const auto list = [candidates = entry.candidates,
                       runtime](const StepSignature& signature) -> absl::StatusOr<Candidates> {
      RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParamGrad, Slot::kSaved, Slot::kState,
                                            Slot::kOptimizer, Slot::kMaster, Slot::kBackup}));
      return candidates(signature, runtime);
    };
    table.rows.push_back({entry.layer, entry.phase, list});
  }
  return table;
}

absl::StatusOr<uint32_t*> NewTickets(cudaStream_t stream) {
  constexpr size_t kBytes = kernels::kTickets * sizeof(uint32_t);
  void* tickets = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&tickets, kBytes), "cudaMalloc of tickets"));
  const cudaError_t error = cudaMemsetAsync(tickets, 0, kBytes, stream);
  if (error == cudaSuccess) return static_cast<uint32_t*>(tickets);
  cudaFree(tickets);
  return CudaStatus(error, "cudaMemsetAsync of tickets");
}

// The same table, for kernels that run.
KernelTable RunnableTable(const SharedRuntime& runtime) {
  KernelTable table = Table(runtime);
  table.stream = runtime->stream;
  table.enter = [device = runtime->device] {
    return CudaStatus(cudaSetDevice(device), "cudaSetDevice");
  };
  return table;
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(void* compute_stream,
                                                         std::vector<CustomKernel> custom) {
  auto runtime = std::make_shared<cuda::Runtime>();
  runtime->stream = static_cast<cudaStream_t>(compute_stream);
  RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&runtime->device), "cudaGetDevice"));
  if (const cublasStatus_t status = cublasLtCreate(&runtime->blas);
      status != CUBLAS_STATUS_SUCCESS) {
    return absl::InternalError(absl::StrCat("cublasLtCreate: ", cublasLtGetStatusString(status)));
  }
  ASSIGN_OR_RETURN(runtime->tickets, cuda::NewTickets(runtime->stream));
  ASSIGN_OR_RETURN(runtime->cudnn, CudnnConvolutions::ForDevice(compute_stream));
  return TableBackend::Create(cuda::RunnableTable(runtime), std::move(custom));
}

absl::StatusOr<std::unique_ptr<EngineCatalog>> MakeCudnnCatalog(
    std::string_view device_properties_json, std::vector<CustomKernel> custom) {
  auto runtime = std::make_shared<cuda::Runtime>();
  ASSIGN_OR_RETURN(runtime->cudnn, CudnnConvolutions::ForDescribedDevice(device_properties_json));
  return TableBackend::Create(cuda::Table(runtime), std::move(custom));
}

absl::StatusOr<std::string> CudnnDeviceProperties(std::string_view device) {
  if (device == "h200") return std::string(kH200DeviceProperties);
  return absl::NotFoundError(
      absl::StrCat("there is no cuDNN description of a device '", std::string(device), "'"));
}

}  // namespace neap
