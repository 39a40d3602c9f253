#include "neap/layers/cuda/device/cuda_graph.h"

#include <type_traits>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/device/cuda_status.h"

namespace neap {
namespace {

struct GraphDeleter {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
struct ExecutableDeleter {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using OwnedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, GraphDeleter>;
using OwnedExecutable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, ExecutableDeleter>;

struct CudaGraph final : Recording {
  explicit CudaGraph(OwnedExecutable graph) : executable(std::move(graph)) {}
  OwnedExecutable executable;
};

// A failed capture leaves an error behind that later launches must not report.
absl::Status Captured(cudaError_t error, const char* call) {
  if (error != cudaSuccess) cudaGetLastError();
  return CudaStatus(error, call);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recording>> CaptureGraph(cudaStream_t stream,
                                                        absl::FunctionRef<absl::Status()> enqueue) {
  RETURN_IF_ERROR(Captured(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                           "cudaStreamBeginCapture"));
  const absl::Status enqueued = enqueue();
  cudaGraph_t captured = nullptr;
  const absl::Status ended =
      Captured(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  const OwnedGraph graph(captured);
  if (!enqueued.ok()) cudaGetLastError();
  RETURN_IF_ERROR(enqueued);
  RETURN_IF_ERROR(ended);
  cudaGraphExec_t instantiated = nullptr;
  RETURN_IF_ERROR(
      Captured(cudaGraphInstantiate(&instantiated, graph.get(), 0), "cudaGraphInstantiate"));
  OwnedExecutable executable(instantiated);
  // Takes the graph's memory now, so that replaying it takes none.
  RETURN_IF_ERROR(Captured(cudaGraphUpload(executable.get(), stream), "cudaGraphUpload"));
  return std::make_unique<CudaGraph>(std::move(executable));
}

absl::Status LaunchGraph(const Recording& recording, cudaStream_t stream) {
  const auto& graph = static_cast<const CudaGraph&>(recording);
  return CudaStatus(cudaGraphLaunch(graph.executable.get(), stream), "cudaGraphLaunch");
}

}  // namespace neap
