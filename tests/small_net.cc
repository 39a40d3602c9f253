#include "tests/small_net.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "neap/core/base/philox.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {

namespace {

struct Block {
  bool bias = true;  // of the first convolution
  bool batch_norm = true;
  bool residual = true;
  bool shares = false;
  bool dropout = true;
};

Graph WithBlock(const Block& block, Graph net) {
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv1",
              Convolution{.out_channels = 8, .kernel = 3, .padding = 1, .bias = block.bias}, {x});
  if (block.batch_norm) x = net.Add("bn1", BatchNorm{}, {x});
  const std::string trunk = net.Add("relu1", Relu{}, {x});
  x = trunk;
  if (block.residual) {
    x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {trunk});
    x = net.Add("relu2", Relu{}, {x});
    if (block.shares) {
      x = net.Add("conv3", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
      net.Share("conv3.weight", "conv2.weight");
    }
    x = net.Add("add", Add{}, {x, trunk});
  }
  x = net.Add("pool", MaxPool{}, {x});
  if (block.dropout) x = net.Add("drop", Dropout{.probability = 0.25F}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 4}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

}  // namespace

Graph SmallNet(Layout layout, bool with_block, DType dtype) {
  return WithBlock({.bias = false, .residual = with_block},
                   Graph({.name = "small", .batch = 8, .dtype = dtype, .layout = layout}));
}

Graph BlockNet(const BlockOptions& options) {
  return WithBlock(
      {.batch_norm = options.batch_norm, .shares = options.shares, .dropout = options.dropout},
      Graph({.name = "net", .batch = options.batch, .dtype = options.dtype}));
}

Batch MakeBatch(uint64_t seed) {
  Batch batch;
  batch.size = 8;
  for (int32_t i = 0; i < 8; ++i) {
    batch.labels.push_back(i % 4);
    for (uint64_t j = 0; j < 3 * 8 * 8; ++j) {
      const PhiloxBlock random =
          Philox({.key = seed, .stream = static_cast<uint64_t>(i), .position = j});
      const bool bright = j % 4 == static_cast<uint64_t>(i % 4);
      batch.images.push_back(ToUnitFloat(random[0]) + (bright ? 1.0F : 0.0F));
    }
  }
  return batch;
}

std::unique_ptr<CpuDevice> OpenCpu() {
  auto device = CpuDevice::Open();
  REQUIRE(device.ok());
  return *std::move(device);
}

}  // namespace neap
