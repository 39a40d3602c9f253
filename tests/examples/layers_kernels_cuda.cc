// The examples in the headers of layers/cuda that include CUDA, compiled and not run.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/layers/cuda/attention/cudnn_attention.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/convolution_problem.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"
#include "neap/layers/cuda/conv/cudnn_engines.h"
#include "neap/layers/cuda/device/cudnn_library.h"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/matmul/matmul.h"

namespace neap::examples {

using namespace cuda;
using namespace operands;

// layers/cuda/candidates.h
cudaError_t LaunchRelu(const LaunchArgs& a) {
  return kernels::Activate(kernels::kRelu, a.Array(X()), a.Array(Y()), a.Elements(Y()), a.stream);
}
absl::StatusOr<Candidates> ReluCandidates(const StepSignature& s, const SharedRuntime& runtime) {
  return OwnKernel(s, runtime, LaunchRelu);
}

// layers/cuda/device/cublas_library.h
absl::Status LoadedCublas(cublasLtHandle_t handle) {
  ASSIGN_OR_RETURN(const CublasLibrary* cublas, LoadCublas());
  RETURN_IF_ERROR(cublas->Checked("cublasLtCreate", cublas->create(&handle)));
  return absl::OkStatus();
}

// layers/cuda/device/cudnn_library.h
absl::Status VersionOfCudnn() {
  RETURN_IF_ERROR(LoadCudnn());
  const size_t version = LoadedCudnn().get_version();
  return absl::OkStatus();
}

// layers/cuda/attention/cudnn_attention.h
absl::Status RunCudnnAttention(const SdpaProblem& problem, void* stream,
                               const SdpaPointers& pointers, void* workspace) {
  ASSIGN_OR_RETURN(auto cudnn, CudnnAttention::ForDevice(stream));
  ASSIGN_OR_RETURN(const Engine engine, cudnn->Find(problem));
  ASSIGN_OR_RETURN(auto plan, cudnn->Build(problem));
  RETURN_IF_ERROR(plan->Execute(pointers, workspace));
  return absl::OkStatus();
}

// layers/cuda/conv/convolution_problem.h
std::string TextOf(const TensorSpec& x, const TensorSpec& w, const TensorSpec& y) {
  ConvolutionProblem problem = {.phase = Phase::kForward, .x = x, .weight = w, .y = y};
  problem.padding = 1;
  return problem.ToString();  // one text per problem, by which lists of engines are kept
}

// layers/cuda/conv/cudnn_convolution.h
absl::Status RunCudnnConvolution(const ConvolutionProblem& problem, void* stream, void* x, void* w,
                                 void* y, void* workspace) {
  ASSIGN_OR_RETURN(auto cudnn, CudnnConvolutions::ForDevice(stream));
  ASSIGN_OR_RETURN(std::vector<Engine> engines, cudnn->Engines(problem));
  ASSIGN_OR_RETURN(auto plan, cudnn->Build(problem, engines.front().id));
  RETURN_IF_ERROR(plan->Execute({.x = x, .weight = w, .y = y}, workspace));
  return absl::OkStatus();
}

// layers/cuda/conv/cudnn_engines.h
absl::Status ReadEngineId() {
  ASSIGN_OR_RETURN(const EngineChoice choice, ParseEngineId("eng12_k2=1_k3=0"));
  choice.engine;  // 12
  choice.knobs;   // {{2, 1}, {3, 0}}
  return absl::OkStatus();
}

// layers/cuda/kernels/kernels.h
void RunRelu(const float* x, float* y, int64_t elements, cudaStream_t stream) {
  cudaError_t error = kernels::Activate(kernels::kRelu, x, y, elements, stream);
}

// layers/cuda/matmul/matmul.h
absl::Status RunMatmul(const Runtime& runtime, const void* a, const void* b, void* c) {
  ASSIGN_OR_RETURN(auto product,
                   Matmul::Build(runtime, {.m = 64, .n = 32, .k = 128}, DType::kFp32));
  RETURN_IF_ERROR(product->Run({a, b, c}));  // c {m, n} = a {m, k} b {k, n}
  return absl::OkStatus();
}

}  // namespace neap::examples
