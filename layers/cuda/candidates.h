// The functions of the CUDA backend's table (layers/catalog/table_backend.h), each of which lists
// the candidate kernels for the signatures of one layer, and common parts of these kernels.
//
// Listing needs no GPU. The candidate's function that makes the kernel may use the whole runtime.
//
//   cudaError_t LaunchRelu(const LaunchArgs& a) {
//     return kernels::Activate(kernels::kRelu, a.Array(X()), a.Array(Y()), a.Elements(Y()),
//                              a.stream);
//   }
//   absl::StatusOr<Candidates> ReluCandidates(const StepSignature& s,
//                                             const SharedRuntime& runtime) {
//     return OwnKernel(s, runtime, LaunchRelu);
//   }
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/operands.h"
#include "neap/layers/catalog/step_run.h"
#include "neap/layers/catalog/table_backend.h"
#include "neap/layers/cuda/attention/cudnn_attention.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"
#include "neap/layers/cuda/device/cublas_library.h"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::cuda {

using Candidate = KernelCandidate;
using Candidates = KernelCandidates;

// The device, stream and library handles that kernels share. For a GPU that is not present only
// `cublas`, `cudnn` and `attention` are set; cuDNN can list engines.
struct Runtime {
  int device = 0;
  cudaStream_t stream = nullptr;
  const CublasLibrary* cublas = nullptr;
  cublasLtHandle_t blas = nullptr;
  uint32_t* tickets = nullptr;  // of reductions, which follow each other on the stream
  std::shared_ptr<CudnnConvolutions> cudnn;
  std::shared_ptr<CudnnAttention> attention;  // null without cuDNN
  ~Runtime();
};
using SharedRuntime = std::shared_ptr<const Runtime>;

// kFp32 for every dtype that is not of 16 bits.
kernels::Element ElementOf(DType dtype);

// One run of a step.
struct LaunchArgs : StepRun {
  // The operand at its address, with the element type of its spec.
  kernels::Array Array(Operand operand) const {
    return {Get<void>(operand), ElementOf(signature.Spec(operand).dtype)};
  }
  // Null if the step does not have the operand.
  kernels::Array FindArray(Operand operand) const {
    return signature.Has(operand) ? Array(operand) : kernels::Array();
  }
  kernels::ReductionMemory Reduction() const { return {run.workspace, tickets}; }
  cudaStream_t stream = nullptr;
  uint32_t* tickets = nullptr;
};

// Makes the step's device current before each run, so the kernel may run on any thread. Refuses a
// smaller workspace than its engine listed.
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

// The candidate `engine`; kernels made by `make` require the engine's workspace.
Candidate StreamCandidate(Engine engine,
                          std::function<absl::StatusOr<std::unique_ptr<StreamKernel>>()> make);

// A single candidate "neap" that runs `launch`.
using OwnLaunch = cudaError_t (*)(const LaunchArgs& args);
Candidates OwnKernel(const StepSignature& signature, const SharedRuntime& runtime, OwnLaunch launch,
                     int64_t workspace_bytes = 0);

// "convolution forward (x 64x3x224x224 fp32 nchw, ...)", for messages.
std::string ToString(const StepSignature& signature);

kernels::ChannelShape ChannelShapeOf(const TensorSpec& tensor);
// The same with the channels last where there is one position, since they are neighbours then.
kernels::ChannelShape DenseChannelShapeOf(const TensorSpec& tensor);

// An activation's function for tensors of the type. nullopt for a layer without a kernel.
std::optional<kernels::Activation> ActivationOf(const Layer& layer, DType dtype);

// UNIMPLEMENTED if an operand in one of the slots has 16 bits.
absl::Status CheckFp32(const StepSignature& signature, std::initializer_list<Slot> slots);

// UNIMPLEMENTED if `elements` is too many for a kernel that has 32-bit indices only.
absl::Status CheckFits32(const StepSignature& signature, int64_t elements);
// UNIMPLEMENTED if maps with values per channel (kernels/channel_map.cuh) have too few bits for the
// positions of a plane.
absl::Status CheckPlanesFit32(const StepSignature& signature, const kernels::ChannelShape& shape);

// The functions of the table's rows, one per layer; each handles all phases of the layer.
using CandidatesOf = absl::StatusOr<Candidates> (*)(const StepSignature& signature,
                                                    const SharedRuntime& runtime);
absl::StatusOr<Candidates> ConvolutionCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime);
// Those that add in fp16 (Engine::accumulates_in_half); none unless the tensors are fp16.
absl::StatusOr<Candidates> HalfConvolutionCandidates(const StepSignature& signature,
                                                     const SharedRuntime& runtime);
absl::StatusOr<Candidates> FoldedConvolutionCandidates(const StepSignature& signature,
                                                       const SharedRuntime& runtime);
absl::StatusOr<Candidates> FullyConnectedCandidates(const StepSignature& signature,
                                                    const SharedRuntime& runtime);
absl::StatusOr<Candidates> NormPassCandidates(const StepSignature& signature,
                                              const SharedRuntime& runtime);
absl::StatusOr<Candidates> BatchNormStatisticsCandidates(const StepSignature& signature,
                                                         const SharedRuntime& runtime);
absl::StatusOr<Candidates> BatchNormApplyCandidates(const StepSignature& signature,
                                                    const SharedRuntime& runtime);
absl::StatusOr<Candidates> GroupNormCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime);
absl::StatusOr<Candidates> LayerNormCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime);
absl::StatusOr<Candidates> ConcatBatchNormsCandidates(const StepSignature& signature,
                                                      const SharedRuntime& runtime);
absl::StatusOr<Candidates> FusedReluCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime);
absl::StatusOr<Candidates> BiasedGeluCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime);
absl::StatusOr<Candidates> ResidualTailCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime);
absl::StatusOr<Candidates> ActivationCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime);
absl::StatusOr<Candidates> PreluCandidates(const StepSignature& signature,
                                           const SharedRuntime& runtime);
absl::StatusOr<Candidates> ScaleShiftCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime);
absl::StatusOr<Candidates> EmbeddingCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime);
absl::StatusOr<Candidates> PositionEmbeddingCandidates(const StepSignature& signature,
                                                       const SharedRuntime& runtime);
absl::StatusOr<Candidates> PrependTokenCandidates(const StepSignature& signature,
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
absl::StatusOr<Candidates> SoftmaxAxisCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime);
absl::StatusOr<Candidates> DiceCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime);
absl::StatusOr<Candidates> LinearCrossEntropyCandidates(const StepSignature& signature,
                                                        const SharedRuntime& runtime);
absl::StatusOr<Candidates> TargetLossCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime);
absl::StatusOr<Candidates> AddCandidates(const StepSignature& signature,
                                         const SharedRuntime& runtime);
absl::StatusOr<Candidates> MultiplyCandidates(const StepSignature& signature,
                                              const SharedRuntime& runtime);
absl::StatusOr<Candidates> AttentionCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime);
absl::StatusOr<Candidates> ConcatCandidates(const StepSignature& signature,
                                            const SharedRuntime& runtime);
absl::StatusOr<Candidates> CropCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime);
absl::StatusOr<Candidates> PermutationCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime);
absl::StatusOr<Candidates> TileCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime);
absl::StatusOr<Candidates> ResampleCandidates(const StepSignature& signature,
                                              const SharedRuntime& runtime);
absl::StatusOr<Candidates> ChannelSliceCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime);
absl::StatusOr<Candidates> ChannelSplitCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime);
absl::StatusOr<Candidates> ZeroPadCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime);
absl::StatusOr<Candidates> AddGradientsCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime);
absl::StatusOr<Candidates> UpdateCandidates(const StepSignature& signature,
                                            const SharedRuntime& runtime);
absl::StatusOr<Candidates> CheckGradientsCandidates(const StepSignature& signature,
                                                    const SharedRuntime& runtime);
absl::StatusOr<Candidates> UpdateScaleCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime);

}  // namespace neap::cuda
