// Defines a network, trains it within a budget on data from memory, evaluates it, uses it and saves
// it. docs/own-network.md explains it block by block.
#include <neap/neap.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

constexpr int64_t kBatch = 32;
constexpr int64_t kSize = 12;
constexpr int64_t kPixels = kSize * kSize;

// A stem, one residual block, and a classifier for two classes.
neap::Graph StripeNet() {
  neap::Graph net({.name = "stripes", .batch = kBatch});
  std::string x = net.Input({1, kSize, kSize});  // channels, height, width
  x = net.Add("conv1", neap::Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu1", neap::Relu{}, {x});
  std::string y = net.Add(
      "conv2", neap::Convolution{.out_channels = 8, .kernel = 3, .padding = 1, .bias = false}, {x});
  y = net.Add("bn2", neap::BatchNorm{}, {y});
  x = net.Add("add", neap::Add{}, {y, x});
  x = net.Add("relu2", neap::Relu{}, {x});
  x = net.Add("pool", neap::GlobalAveragePool{}, {x});
  x = net.Add("fc", neap::FullyConnected{.out_features = 2}, {x});
  net.Loss(x, neap::SoftmaxCrossEntropy{});
  return net;
}

// Images of horizontal (class 0) and vertical (class 1) stripes with noise.
neap::Batch Stripes(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  neap::Batch batch = {.images = std::vector<float>(count * kPixels),
                       .labels = std::vector<int32_t>(count),
                       .size = count};
  for (int64_t image = 0; image < count; ++image) {
    const int32_t label = static_cast<int32_t>(random() % 2);
    const int64_t phase = random() % 4;
    batch.labels[image] = label;
    for (int64_t at = 0; at < kPixels; ++at) {
      const int64_t along = label == 0 ? at / kSize : at % kSize;
      const float noise = static_cast<float>(random() % 1000) / 1000.0F - 0.5F;
      batch.images[image * kPixels + at] = ((along + phase) / 2 % 2 == 0 ? 1.0F : -1.0F) + noise;
    }
  }
  return batch;
}

absl::Status Run() {
  const neap::Graph net = StripeNet();
  ASSIGN_OR_RETURN(auto device, neap::CpuDevice::Open());  // or neap::CudaDevice::Open(0)
  ASSIGN_OR_RETURN(neap::Session session,
                   neap::CreateMeasuredSession(
                       net, *device, {.budget_bytes = 1280 * neap::kKiB},
                       {.optimizer = {.momentum = 0.9F}, .learning_rate = {.base = 0.05F}}));
  std::cout << session.plan().Summary();

  for (uint32_t step = 0; step < 60; ++step) {
    ASSIGN_OR_RETURN(const float loss, session.TrainStep(Stripes(kBatch, step)));
    if (step % 10 == 9) std::cout << "step " << step + 1 << "  loss " << loss << "\n";
  }

  RETURN_IF_ERROR(
      session.SetBudgetAsync(session.planning().minimum_budget_bytes));  // less than is in use
  for (uint32_t step = 60; step < 80; ++step) {
    ASSIGN_OR_RETURN(const float loss, session.TrainStep(Stripes(kBatch, step)));
    if (step % 10 == 9) {
      std::cout << "step " << step + 1 << "  loss " << loss
                << (session.budget_pending() ? "  (still planning)" : "") << "\n";
    }
  }
  RETURN_IF_ERROR(session.AwaitBudget());  // a refusal, if there was one
  std::cout << "the arena has " << session.memory().arena_bytes << " bytes\n";

  ASSIGN_OR_RETURN(neap::Session patient, neap::CreateSession(net, *device, {}, {.accumulate = 4}));
  for (uint32_t i = 0; i < 4; ++i) RETURN_IF_ERROR(patient.Accumulate(Stripes(kBatch, i)).status());
  RETURN_IF_ERROR(patient.Update().status());  // the first step

  neap::Graph scales({.name = "scales", .batch = 8});
  std::string seen = scales.Add("conv", neap::Convolution{.out_channels = 4, .kernel = 3},
                                {scales.Input({1, 12, 12})});
  seen = scales.Add("fc", neap::FullyConnected{.out_features = 2},
                    {scales.Add("pool", neap::GlobalAveragePool{}, {seen})});
  scales.Loss(seen, neap::SoftmaxCrossEntropy{});
  scales.Sizes({{.extents = {8, 8}}, {.extents = {16, 16}, .batch = 4}});
  ASSIGN_OR_RETURN(neap::Session sized, neap::CreateSession(scales, *device, {}));
  neap::Batch small = {.images = std::vector<float>(8 * 8 * 8), .labels = std::vector<int32_t>(8)};
  small.height = small.width = 8;  // feeds state their shape (FeedValue::shape)
  RETURN_IF_ERROR(sized.TrainStep(small).status());

  const neap::Batch test = Stripes(20, 1000);
  ASSIGN_OR_RETURN(const neap::StepResult result, session.Evaluate(test));
  std::cout << result.correct << " of " << test.size << " right, loss " << result.loss << "\n";

  ASSIGN_OR_RETURN(const neap::Prediction prediction, session.Predict(test.images));
  for (int64_t image = 0; image < 3; ++image) {
    const float* const classes = &prediction.probabilities[image * 2];
    std::cout << "image " << image << " is horizontal with " << classes[0] << ", vertical with "
              << classes[1] << "\n";
  }

  RETURN_IF_ERROR(
      session.Save("stripes.safetensors"));  // to go on training: weights, optimizer, step
  RETURN_IF_ERROR(
      session.SaveWeights("weights.safetensors"));  // the weights alone, as PyTorch reads them
  return session.Load("stripes.safetensors");
}

int main() {
  const absl::Status status = Run();
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << status << "\n";
  return EXIT_FAILURE;
}
