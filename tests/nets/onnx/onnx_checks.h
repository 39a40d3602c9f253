// Checks of what is made of an ONNX model that a test builds.
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/base/tensor.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/layer.h"
#include "neap/layers/convolution.h"
#include "tests/nets/onnx/onnx_builder.h"

namespace neap::testing {

// Predicts with the model on images of these extents as read and in the reference. The file's batch
// may be another one.
void CheckPredicts(OnnxBuilder& builder, Ints dims, Layout layout = Layout::kChannelsFirst);

// The same with a loss whose predictions are what the file computes.
void CheckComputes(const OnnxBuilder& builder, Ints dims, const Layer& loss);

// The same of `batch` images with a mean squared error, in both layouts and in the reference of
// arrays, which computes as many of them at a time as the file states.
void CheckArrays(OnnxBuilder& builder, int64_t batch);

// Values for all parameters of the network, each parameter's others than the next one's.
NamedValues WeightsOf(const Graph& net);

// A linear layer of each token, with the extents that a reader gives it.
Convolution LinearOfTokens(int64_t channels, bool bias);

// A model that applies one operator to the images and classifies what it computes.
struct OneNode {
  std::string op;
  Ints image;     // {N, C, H, W}
  Ints weight{};  // empty if the operator has no weight
  Attributes attributes{};
  int64_t outputs = 0;  // of an image
  bool bias = false;
};

void CheckOneNode(const OneNode& given);

}  // namespace neap::testing
