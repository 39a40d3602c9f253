// Attention through the cuDNN graph API (its operation sdpa): whether cuDNN has an engine for a
// problem, with how much workspace, and the plan that runs it.
//
// cuDNN's heuristics name the engine without running it, and a plan has the first of their
// configurations that can be built in the workspace of the best; if there is none, the caller plans
// again without cuDNN (EngineCatalog::Engines). For a description of a device they name none
// (cuDNN 9.19), so of Hopper neap knows what they name there, and their workspace: deterministic
// engines without a bias, for heads of 64 dimensions of query, key and value alike, as many of
// each. That was measured on an H200 with 12 and 16 heads, 197 positions and, as in GPT-2, 1,024
// causal ones, and 3 to 128 images. Of other heads, and of groups that share a key, nothing is
// known, and a plan for a described device has neap's own kernels.
//
// The engine reads and writes 16-bit heads whose dimensions lie next to each other, whatever the
// steps between positions, heads and images, so a tensor with query, key and value is read as it
// is.
//
//   ASSIGN_OR_RETURN(auto cudnn, CudnnAttention::ForDevice(stream));
//   ASSIGN_OR_RETURN(const Engine engine, cudnn->Find(problem));
//   ASSIGN_OR_RETURN(auto plan, cudnn->Build(problem));
//   RETURN_IF_ERROR(plan->Execute(pointers, workspace));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"

namespace neap {

// {images, heads, positions, dims}, of which the last has step 1.
struct SdpaTensor {
  int64_t heads = 1, positions = 1, dims = 1;
  int64_t image_step = 0, head_step = 0, position_step = 0;
};

// Forward, or backward_data. A gradient has the steps of its tensor if no others are given; that of
// the bias is not computed.
struct SdpaProblem {
  Phase phase = Phase::kForward;
  DType dtype = DType::kFp16;
  int64_t images = 1;
  SdpaTensor query, key, value, output;
  std::optional<SdpaTensor> query_gradient = std::nullopt, key_gradient = std::nullopt;
  // {images or 1, heads or 1, queries, keys}, of the problem's dtype; its dims are the keys.
  std::optional<SdpaTensor> bias = std::nullopt;
  bool causal = false;
  float scale = 1;
  bool lse = true;  // forward: whether it is stored, {images, heads, queries} in fp32
  // Backward: the same inputs always give the same bits. On Hopper, cuDNN 9.19 then keeps 16 bits
  // for each pair of positions in the workspace.
  bool deterministic = false;

  std::string ToString() const;
};

// In backward, `output` and `lse` are read.
struct SdpaPointers {
  void *query = nullptr, *key = nullptr, *value = nullptr, *bias = nullptr;
  void *output = nullptr, *lse = nullptr;
  void *doutput = nullptr, *dquery = nullptr, *dkey = nullptr, *dvalue = nullptr;
};

class SdpaPlan {
 public:
  virtual ~SdpaPlan() = default;
  virtual absl::Status Execute(const SdpaPointers& pointers, void* workspace) = 0;
};

// *Threads*: as CudnnConvolutions (layers/cuda/conv/cudnn_convolution.h). *Ownership*: plans may
// outlive this object.
class CudnnAttention {
 public:
  // Plans run on `stream` (a cudaStream_t) of the current device. Errors: those of LoadCudnn().
  static absl::StatusOr<std::unique_ptr<CudnnAttention>> ForDevice(void* stream);
  // For a GPU that is not present, from cuDNN's description of it. Build() fails.
  static absl::StatusOr<std::unique_ptr<CudnnAttention>> ForDescribedDevice(
      std::string_view properties_json);

  virtual ~CudnnAttention() = default;
  // The engine "cudnn-sdpa", or "cudnn-sdpa-deterministic" for a backward problem that asks for it.
  // Errors: UNIMPLEMENTED if cuDNN has none for the problem, or is older than 9.19.
  virtual absl::StatusOr<Engine> Find(const SdpaProblem& problem) = 0;
  // Of a problem for which there is an engine.
  virtual absl::StatusOr<std::unique_ptr<SdpaPlan>> Build(const SdpaProblem& problem) = 0;
};

}  // namespace neap
