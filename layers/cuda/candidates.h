// What the CUDA backend's table holds: for a layer and phase, a function that lists the ways to run
// a signature.
//
// Listing needs no GPU and must be cheap; so a candidate carries what making the kernel takes
// (building a cuDNN plan) as a function that is called, with the device, only when the kernel is
// wanted.
//
//   cudaError_t LaunchRelu(const LaunchArgs& a) {
//     return kernels::Relu(a.Get<float>(X()), a.Get<float>(Y()), a.Elements(Y()), a.stream);
//   }
//   absl::StatusOr<Candidates> ReluCandidates(const StepSignature& s, CudnnConvolutions&) {
//     return OwnKernel(s, LaunchRelu);
//   }
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cassert>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/operands.h"
#include "neap/layers/cuda/cudnn_convolution.h"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::cuda {

// Where kernels run. Outlived by none of them: kernels share it.
struct Runtime {
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasLtHandle_t blas = nullptr;
  std::shared_ptr<CudnnConvolutions> cudnn;
  ~Runtime();
};
using SharedRuntime = std::shared_ptr<const Runtime>;

// One run of a step.
struct LaunchArgs {
  const StepSignature& signature;
  const KernelArgs& run;
  cudaStream_t stream;

  template <typename T>
  T* Find(Operand operand) const {  // null when the step has no such operand
    const std::optional<size_t> position = signature.Find(operand);
    return position ? static_cast<T*>(run.operands[*position]) : nullptr;
  }
  template <typename T>
  T* Get(Operand operand) const {
    T* const address = Find<T>(operand);
    assert(address != nullptr);
    return address;
  }
  int64_t Elements(Operand operand) const { return signature.Spec(operand).elements(); }
};

// Makes the step's device current, so that it may run on any thread. Refuses less workspace than
// its engine listed.
class StreamKernel : public Kernel {
 public:
  StreamKernel(SharedRuntime runtime, StepSignature signature)
      : runtime_(std::move(runtime)), signature_(std::move(signature)) {}
  absl::Status Run(const KernelArgs& args) final;
  void NeedWorkspace(int64_t bytes) { workspace_bytes_ = bytes; }

 protected:
  virtual absl::Status Launch(const LaunchArgs& args) = 0;
  const Runtime& runtime() const { return *runtime_; }
  const StepSignature& signature() const { return signature_; }

 private:
  SharedRuntime runtime_;
  StepSignature signature_;
  int64_t workspace_bytes_ = 0;
};

struct Candidate {
  Engine engine;
  std::function<absl::StatusOr<std::unique_ptr<StreamKernel>>(const SharedRuntime&)> make;
};
using Candidates = std::vector<Candidate>;
using CandidatesOf = absl::StatusOr<Candidates> (*)(const StepSignature& signature,
                                                    CudnnConvolutions& cudnn);

// The one candidate "neap".
using OwnLaunch = cudaError_t (*)(const LaunchArgs& args);
Candidates OwnKernel(const StepSignature& signature, OwnLaunch launch, int64_t workspace_bytes = 0);

// "convolution forward (x 64x3x224x224 fp32 nchw, ...)", for messages.
std::string ToString(const StepSignature& signature);

kernels::ChannelShape ChannelShapeOf(const TensorSpec& tensor);

// UNIMPLEMENTED where a kernel that has 32-bit indices alone would have to count `elements`.
absl::Status CheckFits32(const StepSignature& signature, int64_t elements);

// The table's entries, by layer; each looks at the signature's phase.
absl::StatusOr<Candidates> ConvolutionCandidates(const StepSignature& signature,
                                                 CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> FullyConnectedCandidates(const StepSignature& signature,
                                                    CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> BatchNormCandidates(const StepSignature& signature,
                                               CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> ReluCandidates(const StepSignature& signature, CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> SigmoidCandidates(const StepSignature& signature,
                                             CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> TanhCandidates(const StepSignature& signature, CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> DropoutCandidates(const StepSignature& signature,
                                             CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> MaxPoolCandidates(const StepSignature& signature,
                                             CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> AveragePoolCandidates(const StepSignature& signature,
                                                 CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> GlobalAveragePoolCandidates(const StepSignature& signature,
                                                       CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> LrnCandidates(const StepSignature& signature, CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> SoftmaxCandidates(const StepSignature& signature,
                                             CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> AddCandidates(const StepSignature& signature, CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> ConcatCandidates(const StepSignature& signature,
                                            CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> CropCandidates(const StepSignature& signature, CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> AddGradientsCandidates(const StepSignature& signature,
                                                  CudnnConvolutions& cudnn);
absl::StatusOr<Candidates> SgdCandidates(const StepSignature& signature, CudnnConvolutions& cudnn);

}  // namespace neap::cuda
