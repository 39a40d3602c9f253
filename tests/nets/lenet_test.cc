#include "neap/nets/lenet.h"

#include <doctest/doctest.h>

#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("LeNet has Caffe's layers and 431,080 parameters") {
  const Resolved net(LeNet({.batch = 64}));
  CHECK(ParameterCount(net.graph()) == 431'080);
  CHECK(net.names() == std::vector<std::string>{"input", "conv1", "pool1", "conv2", "pool2", "fc1",
                                                "relu1", "fc2", "labels", "loss"});
}

TEST_CASE("LeNet's images shrink from 28 to 4 and end in 10 classes") {
  const Resolved net(LeNet({.batch = 64}));
  CHECK(net.shape("input") == "64x1x28x28");
  CHECK(net.shape("conv1") == "64x20x24x24");
  CHECK(net.shape("pool1") == "64x20x12x12");
  CHECK(net.shape("conv2") == "64x50x8x8");
  CHECK(net.shape("pool2") == "64x50x4x4");
  CHECK(net.shape("fc1") == "64x500x1x1");
  CHECK(net.shape("loss") == "64x10x1x1");
}

TEST_CASE("LeNet's smallest image is 16") {
  CHECK(Resolve(LeNet({.image = 16}), Mode::kTraining).ok());
  const auto refused = Resolve(LeNet({.image = 11}), Mode::kTraining);
  CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(refused.status().ToString().find("conv2") != std::string::npos);
}

}  // namespace
}  // namespace neap::nets
