// What a convolution computes, as cuDNN and neap's own kernels are asked for it.
//
// Needs neither a GPU nor cuDNN.
//
//   ConvolutionProblem problem = {.phase = Phase::kForward, .x = x, .weight = w, .y = y};
//   problem.padding = 1;
//   return problem.ToString();  // one text per problem, by which lists of engines are kept
#pragma once

#include <string>

#include "neap/core/base/tensor.h"
#include "neap/core/step/layer_spec.h"
#include "neap/core/step/window.h"

namespace neap {

// x, weight and y are the layer's input, weight and output, or their gradients, of two or three
// spatial axes; `phase` decides which of them is computed.
struct ConvolutionProblem {
  Phase phase = Phase::kForward;
  TensorSpec x;
  TensorSpec weight;  // x's channels divided by the weight's are the number of groups
  TensorSpec y;
  Extents stride = 1;
  Extents padding = 0;
  Extents dilation = 1;
  bool accumulate = false;  // backward_params: add to the gradient in `weight`
  bool bias = false;        // forward: plans may add it (ConvolutionPlan::AddsBias())
  bool adds = false;        // forward: plans add a tensor like y (PositionEngines() only)
  bool relu = false;        // forward: y = relu(y + bias), rounded once; the bias has the type of y
  // For fp16 tensors: add products in fp16 (u-cuDNN's true half) instead of fp32 (pseudo half).
  bool half_accumulation = false;

  int axes() const { return x.shape.spatial_axes(); }  // 2 of images, 3 of volumes
  std::string ToString() const;  // without `bias` and `adds`, which do not change cuDNN's engines
};

}  // namespace neap
