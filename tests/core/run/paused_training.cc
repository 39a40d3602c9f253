#include "tests/core/run/paused_training.h"

#include <doctest/doctest.h>

#include <cmath>

#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "tests/given_gradients.h"
#include "tests/small_training.h"

namespace neap::pause_test {

using testing::GivenLosses;

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

Feeds FeedsOf(const Batch& batch) {
  return {{.name = "input", .floats = batch.images}, {.name = "labels", .integers = batch.labels}};
}

Graph Given(const NetOptions& options) { return GivenLosses(BlockNet(options)).net(); }

void TrainGiven(Session& session, const Graph& net, int steps) {
  const GivenLosses losses(net);
  for (int i = 0; i < steps; ++i) {
    const int64_t step = session.step();
    const Batch batch = MakeBatch(static_cast<uint64_t>(step));
    const StepResult result = losses.Step(session, FeedsOf(batch));
    CHECK(result.step == step);
    CHECK(result.losses.empty());
    CHECK(result.outputs.empty());
    CHECK(session.step() == step + 1);
    const MemoryUse use = session.memory();
    CHECK(use.measured_peak_bytes == use.predicted_peak_bytes);
  }
}

Graph TwoHeads() {
  Graph net({.name = "heads", .batch = 4});
  net.Input("image", {2, 4, 4});
  net.Input("kind", {}, DType::kInt32);
  net.Input("size", {2, 1, 1}, DType::kFp32);
  net.Add("conv", Convolution{.out_channels = 4, .kernel = 3, .padding = 1}, {"image"});
  net.Add("middle", Tanh{}, {"conv"});
  net.Add("kinds", FullyConnected{.out_features = 4}, {"middle"});
  net.Add("sizes", FullyConnected{.out_features = 2}, {"middle"});
  net.Loss("kind_loss", SoftmaxCrossEntropy{}, {"kinds", "kind"});
  net.Loss("size_loss", MeanSquaredError{.weight = 0.25F}, {"sizes", "size"});
  net.Output("kinds");
  return net;
}

HeadsBatch::HeadsBatch() {
  for (int i = 0; i < 128; ++i) image.push_back(std::sin(static_cast<float>(i)));
  for (int i = 0; i < 8; ++i) size.push_back(std::cos(static_cast<float>(i)));
}

Feeds HeadsBatch::feeds() const {
  return {{.name = "image", .floats = image},
          {.name = "kind", .integers = kind},
          {.name = "size", .floats = size}};
}

}  // namespace neap::pause_test
