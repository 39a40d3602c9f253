// Common parts of the CUDA kernels.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/device/cuda_status.h"

namespace neap::cuda {
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

}  // namespace

Runtime::~Runtime() {
  if (blas != nullptr) cublas->destroy(blas);
  if (tickets != nullptr) cudaFree(tickets);
}

absl::Status StreamKernel::Run(const KernelArgs& args) {
  if (args.workspace_bytes < workspace_bytes_) {
    return absl::InternalError(absl::StrCat(ToString(signature_), " needs ", workspace_bytes_,
                                            " bytes of workspace, not ", args.workspace_bytes));
  }
  RETURN_IF_ERROR(CudaStatus(cudaSetDevice(runtime_->device), "cudaSetDevice"));
  return Launch(LaunchArgs{{signature_, args}, runtime_->stream, runtime_->tickets});
}

kernels::Element ElementOf(DType dtype) {
  if (dtype == DType::kFp16) return kernels::Element::kFp16;
  return dtype == DType::kBf16 ? kernels::Element::kBf16 : kernels::Element::kFp32;
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

Candidate StreamCandidate(Engine engine,
                          std::function<absl::StatusOr<std::unique_ptr<StreamKernel>>()> make) {
  const int64_t workspace_bytes = engine.workspace_bytes;
  return {.engine = std::move(engine),
          .make = [make = std::move(make),
                   workspace_bytes]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
            ASSIGN_OR_RETURN(std::unique_ptr<StreamKernel> kernel, make());
            kernel->NeedWorkspace(workspace_bytes);
            return kernel;
          }};
}

Candidates OwnKernel(const StepSignature& signature, const SharedRuntime& runtime, OwnLaunch launch,
                     int64_t workspace_bytes) {
  const auto make = [signature, runtime,
                     launch]() -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
    return std::make_unique<OwnStreamKernel>(runtime, signature, launch);
  };
  return {
      StreamCandidate({.id = std::string(kOwnEngine), .workspace_bytes = workspace_bytes}, make)};
}

kernels::ChannelShape ChannelShapeOf(const TensorSpec& tensor) {
  return {.outer = tensor.shape.n(),
          .channels = tensor.shape.c(),
          .inner = tensor.shape.positions(),
          .channels_last = tensor.layout == Layout::kChannelsLast};
}

kernels::ChannelShape DenseChannelShapeOf(const TensorSpec& tensor) {
  kernels::ChannelShape shape = ChannelShapeOf(tensor);
  shape.channels_last = shape.channels_last || shape.inner == 1;
  return shape;
}

absl::Status CheckFp32(const StepSignature& signature, std::initializer_list<Slot> slots) {
  for (const OperandSpec& operand : signature.operands) {
    const bool is_fp32 = ElementOf(operand.tensor.dtype) == kernels::Element::kFp32;
    if (is_fp32 || std::find(slots.begin(), slots.end(), operand.operand.slot) == slots.end())
      continue;
    return absl::UnimplementedError(absl::StrCat(
        "the CUDA kernels need ", ToString(operand.operand), " in fp32: ", ToString(signature)));
  }
  return absl::OkStatus();
}

absl::Status CheckFits32(const StepSignature& signature, int64_t elements) {
  if (kernels::Fits32(elements)) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("no CUDA kernel can index ", elements, " elements: ", ToString(signature)));
}

absl::Status CheckPlanesFit32(const StepSignature& signature, const kernels::ChannelShape& shape) {
  return shape.channels_last ? absl::OkStatus() : CheckFits32(signature, shape.inner);
}

}  // namespace neap::cuda
