// Convolutions through the cuDNN graph API: the list of engines, and plans that run one of them.
//
// cuDNN's heuristics rank engines (an engine and its knobs) for a problem without running them, and
// need only the description of a GPU. Building an engine's plan needs the GPU. Listing takes
// milliseconds, so every list is cached, and kept between runs if there are EngineLists; building
// can take a second (run-time compiled engines).
//
//   ASSIGN_OR_RETURN(auto cudnn, CudnnConvolutions::ForDevice(stream));
//   ASSIGN_OR_RETURN(std::vector<Engine> engines, cudnn->Engines(problem));
//   ASSIGN_OR_RETURN(auto plan, cudnn->Build(problem, engines.front().id));
//   RETURN_IF_ERROR(plan->Execute({.x = x, .weight = w, .y = y}, workspace));
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/engine_lists.h"
#include "neap/layers/cuda/conv/convolution_problem.h"

namespace neap {

struct ConvolutionPointers {
  void* x = nullptr;
  void* weight = nullptr;
  void* y = nullptr;
  void* bias = nullptr;  // {channels of y}, for plans with a ReLU or that add it
  // Forward, if ConvolutionProblem::adds: like y, added to it. For plans that add it to the
  // gradient of x: like x.
  const void* addend = nullptr;
};

class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual absl::Status Execute(const ConvolutionPointers& pointers, void* workspace) = 0;
  // Whether y has the bias, of fp32, without a ReLU.
  virtual bool AddsBias() const { return false; }
  // Whether the gradient of x, as it would be stored, has the addend.
  virtual bool AddsAddend() const { return false; }
};

// *Threads*: Engines() from any number at a time, also while another thread builds or executes
// plans: engines are listed with a cuDNN handle of their own, because threads must not share one.
// Build() and plans: one at a time. *Ownership*: plans may outlive this object.
class CudnnConvolutions {
 public:
  // Plans run on `stream` (a cudaStream_t) of the current device. Errors: those of LoadCudnn(),
  // also of ForDescribedDevice(); FAILED_PRECONDITION before cuDNN 9.19.
  static absl::StatusOr<std::unique_ptr<CudnnConvolutions>> ForDevice(
      void* stream, std::shared_ptr<EngineLists> lists = nullptr);
  // For a GPU that is not present, from cuDNN's description of it (cuDNN >= 9.8). Build() fails.
  static absl::StatusOr<std::unique_ptr<CudnnConvolutions>> ForDescribedDevice(
      std::string_view properties_json, std::shared_ptr<EngineLists> lists = nullptr);

  virtual ~CudnnConvolutions() = default;
  // cuDNN's, as cudnnGetVersion() returns it: 91900 for 9.19.0.
  virtual size_t Version() const = 0;
  // In heuristic order: recommendations first, then fallbacks. For fp32, engines that round to tf32
  // are left out; for 16 bits, those that add in 16 bits, unless the problem says to. Errors:
  // UNIMPLEMENTED if there is none, and those of CheckTrusted() (layers/cuda/conv/cudnn_engines.h).
  virtual absl::StatusOr<std::vector<Engine>> Engines(const ConvolutionProblem& problem) = 0;
  // `engine` is the id of one of Engines(problem), made of cuDNN's global index and knobs:
  // "eng12_k2=1_k3=0".
  virtual absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Build(const ConvolutionProblem& problem,
                                                                 std::string_view engine) = 0;
};

}  // namespace neap
