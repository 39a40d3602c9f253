// The layers, shapes and options with which every backend's kernels are tested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/step/layer.h"

namespace neap::testing {

struct LayerCase {
  std::string name;  // "convolution 3x3 stride 2x1 ... on 2x4x9x7 fp32 nhwc"
  Layer layer;
  std::vector<TensorSpec> inputs;
  // The network's, for layers that read integers alone.
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;

  LayerContext Context(Mode mode = Mode::kTraining) const {
    return {.inputs = inputs, .mode = mode, .dtype = dtype, .layout = layout};
  }
};

// The case with images of another type.
LayerCase WithDType(LayerCase layer_case, DType dtype);

// Hand-picked corners (1x1 images, batch 1, stride > kernel, groups, dilation) and random ones, in
// both layouts. The same list for the same seed on every platform.
std::vector<LayerCase> AllLayerCases(uint32_t seed);

}  // namespace neap::testing
