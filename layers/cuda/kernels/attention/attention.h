// Launchers of the kernels of attention (layers/attention/attention.h), for heads of at most
// kMaxHeadDims dimensions, in every layout and element type.
//
// A block of threads takes a tile of the positions of a head, and reads the others of the head tile
// by tile, so no memory holds a number for every pair of positions. A tile of queries reads keys
// and values, forward and for the gradient of the query; a tile of keys reads the queries of all
// heads that share it, for the gradients of key and value; a tile of pairs of positions reads the
// images and heads that share its bias, for the gradient of that. Sums are taken in fp32, in an
// order that depends on the shape only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"
#include "neap/layers/steps/window_places.h"

namespace neap::kernels {

inline constexpr int64_t kMaxHeadDims = 512;

// From one to the next, in elements.
struct HeadSteps {
  int64_t image = 0, head = 0, position = 0, dim = 0;
  int64_t set = 0;  // of AttentionProblem::sets
};
// An array that begins with the first head, and its gradient.
struct HeadsArray {
  Array values, gradient;
  HeadSteps steps;
};
struct BiasSteps {
  int64_t image = 0, head = 0, query = 0, key = 0, set = 0;
};

// The operands of an attention step. All arrays are of one type, except a bias of fp32, and its
// gradient.
struct AttentionProblem {
  int64_t images = 1;  // `sets` behind each other are parts of an image in memory
  int64_t sets = 1;
  int heads = 1, kv_heads = 1;
  int queries = 1, keys = 1;
  int dims = 1, value_dims = 1;
  bool causal = false;
  float scale = 1;
  HeadsArray query, key, value, output;
  Array bias, bias_gradient;  // or null
  BiasSteps bias_steps;
  // Whether the bias is a table {offsets, heads}, of these windows.
  bool has_windows = false;
  WindowPlaces windows;
  bool adds_to_bias_gradient = false;
  float* lse = nullptr;  // {images, heads, queries}; null in a forward step that does not store it
  // Rotated dimensions, and the cosine and sine of the angle of each position and pair of them:
  // RotaryTurns() of RotaryBytes().
  int rotary_dims = 0;
  float2* turns = nullptr;
};

// Heads that are copied rotated by their positions, forth or back; `to` may be `from` with equal
// steps. Dimensions lie next to each other.
struct RotatedHeads {
  int64_t images = 1;
  int heads = 1, positions = 1, dims = 1, rotary_dims = 0;
  const float2* turns = nullptr;
  bool back = false;
  Array from, to;
  HeadSteps from_steps, to_steps;
};

// rotary.cu
int64_t RotaryBytes(int64_t queries, int64_t keys, int rotary_dims);
cudaError_t RotaryTurns(int64_t queries, int64_t keys, int rotary_dims, float base, float2* turns,
                        cudaStream_t stream);
cudaError_t RotateHeads(const RotatedHeads& heads, cudaStream_t stream);

// attention_forward.cu
cudaError_t AttentionForward(const AttentionProblem& problem, cudaStream_t stream);

// attention_backward.cu. The scratch memory, of AttentionScratchBytes(), is also read by
// AttentionBiasGradient(), which follows.
int64_t AttentionScratchBytes(int64_t images, int64_t heads, int64_t queries);
cudaError_t AttentionBackward(const AttentionProblem& problem, void* scratch, cudaStream_t stream);

// attention_bias.cu. For a bias that all images share, AttentionBiasScratchBytes() of scratch
// memory follow those of AttentionScratchBytes(); `dims` are those of query or value, whichever has
// more.
int64_t AttentionBiasScratchBytes(int64_t images, int64_t heads, int64_t queries, int64_t keys,
                                  int64_t dims, bool has_windows);
cudaError_t AttentionBiasGradient(const AttentionProblem& problem, void* scratch,
                                  cudaStream_t stream);

}  // namespace neap::kernels
