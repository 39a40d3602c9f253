// What the CUDA backend's rows list (layers/catalog/table_backend.h): for a layer, a function that
// gives the ways to run a signature, and what its kernels share.
//
// Listing needs no GPU; what making a kernel takes is in the candidate, and may use all of the
// runtime.
//
//   cudaError_t LaunchRelu(const LaunchArgs& a) {
//     return kernels::Relu(a.Get<float>(X()), a.Get<float>(Y()), a.Elements(Y()), a.stream);
//   }
//   absl::StatusOr<Candidates> ReluCandidates(const StepSignature& s, const SharedRuntime& runtime)
//   {
//     return OwnKernel(s, runtime, LaunchRelu);
//   }
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/operands.h"
#include "neap/layers/catalog/step_run.h"
#include "neap/layers/catalog/table_backend.h"
#include "neap/layers/cuda/cudnn_convolution.h"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::cuda {

using Candidate = KernelCandidate;
using Candidates = KernelCandidates;

// Where kernels run; they share it. Of a GPU that is not here there is cudnn alone, which lists.
struct Runtime {
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasLtHandle_t blas = nullptr;
  std::shared_ptr<CudnnConvolutions> cudnn;
  ~Runtime();
};
using SharedRuntime = std::shared_ptr<const Runtime>;

// One run of a step.
struct LaunchArgs : StepRun {
  cudaStream_t stream = nullptr;
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

// The candidate `engine`, whose workspace the kernel that `make` returns will then need.
Candidate StreamCandidate(Engine engine,
                          std::function<absl::StatusOr<std::unique_ptr<StreamKernel>>()> make);

// The one candidate "neap".
using OwnLaunch = cudaError_t (*)(const LaunchArgs& args);
Candidates OwnKernel(const StepSignature& signature, const SharedRuntime& runtime, OwnLaunch launch,
                     int64_t workspace_bytes = 0);

// "convolution forward (x 64x3x224x224 fp32 nchw, ...)", for messages.
std::string ToString(const StepSignature& signature);

kernels::ChannelShape ChannelShapeOf(const TensorSpec& tensor);

// UNIMPLEMENTED where a kernel that has 32-bit indices alone would have to count `elements`.
absl::Status CheckFits32(const StepSignature& signature, int64_t elements);

// The functions of the rows, by layer; each looks at the signature's phase.
using CandidatesOf = absl::StatusOr<Candidates> (*)(const StepSignature& signature,
                                                    const SharedRuntime& runtime);
absl::StatusOr<Candidates> ConvolutionCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime);
absl::StatusOr<Candidates> FullyConnectedCandidates(const StepSignature& signature,
                                                    const SharedRuntime& runtime);
absl::StatusOr<Candidates> BatchNormCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime);
absl::StatusOr<Candidates> ReluCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime);
absl::StatusOr<Candidates> SigmoidCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime);
absl::StatusOr<Candidates> TanhCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime);
absl::StatusOr<Candidates> DropoutCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime);
absl::StatusOr<Candidates> MaxPoolCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime);
absl::StatusOr<Candidates> AveragePoolCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime);
absl::StatusOr<Candidates> GlobalAveragePoolCandidates(const StepSignature& signature,
                                                       const SharedRuntime& runtime);
absl::StatusOr<Candidates> LrnCandidates(const StepSignature& signature,
                                         const SharedRuntime& runtime);
absl::StatusOr<Candidates> SoftmaxCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime);
absl::StatusOr<Candidates> AddCandidates(const StepSignature& signature,
                                         const SharedRuntime& runtime);
absl::StatusOr<Candidates> ConcatCandidates(const StepSignature& signature,
                                            const SharedRuntime& runtime);
absl::StatusOr<Candidates> CropCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime);
absl::StatusOr<Candidates> AddGradientsCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime);
absl::StatusOr<Candidates> SgdCandidates(const StepSignature& signature,
                                         const SharedRuntime& runtime);

}  // namespace neap::cuda
