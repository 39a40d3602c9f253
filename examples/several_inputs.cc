// A network of two inputs, two outputs and three losses, with an embedding that both inputs share:
// what a thing is, and its price, from a picture of it and six measurements. Trains it by each of
// the policies that the command line names, in the least memory: to the same bits. docs/ports.md
// explains it.
#include <neap/neap.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

constexpr int64_t kBatch = 32, kPixels = 256, kMeasured = 6, kKinds = 4;

neap::Graph ThingNet() {
  neap::Graph net({.name = "things", .batch = kBatch});
  net.Input("picture", {1, 16, 16});
  net.Input("measured", {kMeasured, 1, 1});
  net.Input("kind", {}, neap::DType::kInt32);
  net.Input("price", {1, 1, 1}, neap::DType::kFp32);
  net.Add("conv", neap::Convolution{.out_channels = 8, .kernel = 3}, {"picture"});
  net.Add("relu", neap::Relu{}, {"conv"});
  net.Add("seen", neap::FullyConnected{.out_features = 16}, {"relu"});
  net.Add("known", neap::FullyConnected{.out_features = 16}, {"measured"});
  net.Add("embedded", neap::FullyConnected{.out_features = 24}, {"seen"});
  net.Add("embedded_too", neap::FullyConnected{.out_features = 24}, {"known"});
  net.Share("embedded_too.weight", "embedded.weight");
  net.Share("embedded_too.bias", "embedded.bias");
  net.Add("both", neap::Add{}, {"embedded", "embedded_too"});
  net.Add("kinds", neap::FullyConnected{.out_features = kKinds}, {"both"});
  net.Add("worth", neap::FullyConnected{.out_features = 1}, {"both"});
  net.Add("guess", neap::FullyConnected{.out_features = 1}, {"embedded_too"});
  net.Loss("kind_loss", neap::SoftmaxCrossEntropy{}, {"kinds", "kind"});
  net.Loss("price_loss", neap::MeanSquaredError{.weight = 0.5F}, {"worth", "price"});
  net.Loss("guess_loss", neap::MeanSquaredError{.weight = 0.1F}, {"guess", "price"});
  net.Output("kinds");
  net.Output("worth");
  return net;
}

// One of four bands of the picture is bright, and the price is the sum of what is measured.
absl::StatusOr<neap::StepResult> Step(neap::Session& session, std::mt19937& random) {
  const auto noise = [&] { return static_cast<float>(random() % 1000) / 1000.0F; };
  std::vector<float> pictures, measured, prices(kBatch);
  std::vector<int32_t> kinds;
  for (int64_t i = 0; i < kBatch; ++i) {
    kinds.push_back(static_cast<int32_t>(random() % kKinds));
    for (int64_t p = 0; p < kPixels; ++p)
      pictures.push_back(noise() + (p * kKinds / kPixels == kinds.back() ? 1.0F : 0.0F));
    for (int64_t k = 0; k < kMeasured; ++k) measured.push_back(noise());
    for (int64_t k = 0; k < kMeasured; ++k) prices[i] += measured[i * kMeasured + k] / kMeasured;
  }
  return session.Step({{.name = "picture", .floats = pictures},
                       {.name = "measured", .floats = measured},
                       {.name = "kind", .integers = kinds},
                       {.name = "price", .floats = prices}});
}

absl::StatusOr<neap::StepResult> Train(const std::string& policy) {
  ASSIGN_OR_RETURN(const auto device, neap::CpuDevice::Open());
  ASSIGN_OR_RETURN(neap::Session session,
                   neap::CreateSession(ThingNet(), *device, {.policy = policy},
                                       {.learning_rate = {.base = 0.005F}}));
  RETURN_IF_ERROR(session.SetBudget(session.planning().minimum_budget_bytes));
  std::mt19937 random(1);
  absl::StatusOr<neap::StepResult> result = Step(session, random);
  while (result.ok() && session.step() < 200) result = Step(session, random);
  std::cout << policy << " in " << session.plan().arena_bytes << " bytes:";
  return result;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::StatusOr<neap::StepResult> result = Train(argv[i]);
    if (!result.ok()) std::cerr << result.status() << "\n";
    if (!result.ok()) return EXIT_FAILURE;
    std::cout.precision(9);
    for (const neap::LossResult& loss : result->losses)
      std::cout << "  " << loss.name << " " << loss.loss;
    std::cout << "  worth " << result->outputs[1].values[0] << "\n";
  }
  return EXIT_SUCCESS;
}
