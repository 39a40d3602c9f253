#include "neap/layers/profile/profile_shares.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "neap/core/program/passes.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/profile/profile_steps.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

using Key = std::pair<std::string, int64_t>;
using Shares = std::vector<std::vector<StepSignature>>;

Key KeyOf(const StepSignature& kernel) { return {SignatureText(kernel), BatchOf(kernel)}; }

// So many convolutions of different widths, with all parts of the batch, which may also add to
// gradients.
std::vector<StepSignature> Kernels(int convolutions) {
  Graph net({.name = "wide", .batch = 8});
  std::string x = net.Input({3, 8, 8});
  for (int i = 1; i <= convolutions; ++i)
    x = net.Add("conv" + std::to_string(i), Convolution{.out_channels = 4 * i, .kernel = 3}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  const Program program = Lower(net, {}, cpu->description()).value();
  std::vector<StepSignature> kernels =
      WithParts(KernelsOf(program), DivisionPolicy::kAll, cpu->backend()).value();
  for (size_t i = 0, written = kernels.size(); i < written; ++i) {
    if (IsDivisible(kernels[i]) && SumsParts(kernels[i]))
      kernels.push_back(AddingSignature(kernels[i]));
  }
  return kernels;
}

// The time of the device that takes longest.
double Longest(const Shares& shares, const std::map<Key, double>& seconds) {
  double longest = 0;
  for (const std::vector<StepSignature>& share : shares) {
    double sum = 0;
    for (const StepSignature& kernel : share) sum += seconds.at(KeyOf(kernel));
    longest = std::max(longest, sum);
  }
  return longest;
}

std::map<Key, double> RandomSeconds(const std::vector<StepSignature>& kernels, uint32_t seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> seconds(0, 2);
  std::map<Key, double> by_kernel;
  for (const StepSignature& kernel : kernels) by_kernel[KeyOf(kernel)] = seconds(random);
  return by_kernel;
}

TEST_CASE("each kernel is measured by one device, in order, with all others of its operation") {
  const std::vector<StepSignature> kernels = Kernels(3);
  std::set<Key> all;
  for (const StepSignature& kernel : kernels) all.insert(KeyOf(kernel));
  REQUIRE(all.size() == kernels.size());
  REQUIRE(std::any_of(kernels.begin(), kernels.end(), AddsToGradients));
  for (const int64_t devices : {1, 2, 3, 8}) {
    CAPTURE(devices);
    const std::map<Key, double> seconds = RandomSeconds(kernels, static_cast<uint32_t>(devices));
    const Shares shares = DivideKernels(
        kernels, [&](const StepSignature& kernel) { return seconds.at(KeyOf(kernel)); }, devices);
    REQUIRE(std::ssize(shares) == devices);
    std::map<Key, size_t> device_of;
    for (size_t i = 0; i < shares.size(); ++i) {
      size_t place = 0;
      for (const StepSignature& kernel : shares[i]) {
        CHECK(device_of.emplace(KeyOf(kernel), i).second);
        while (place < kernels.size() && KeyOf(kernels[place]) != KeyOf(kernel)) ++place;
        CHECK(place < kernels.size());  // it comes after those before it
      }
    }
    CHECK(device_of.size() == all.size());
    std::map<std::string, size_t> device_of_operation;
    for (const StepSignature& kernel : kernels) {
      const std::string operation =
          SignatureText(AddsToGradients(kernel) ? WritingSignature(kernel) : kernel);
      const size_t device = device_of.at(KeyOf(kernel));
      CHECK(device_of_operation.try_emplace(operation, device).first->second == device);
    }
  }
}

// The shortest time of all divisions of the operations among devices.
double Shortest(const std::vector<double>& operations, size_t devices) {
  double shortest = std::accumulate(operations.begin(), operations.end(), 0.0);
  std::vector<size_t> device_of(operations.size(), 0);
  for (;;) {
    std::vector<double> load(devices);
    for (size_t i = 0; i < operations.size(); ++i) load[device_of[i]] += operations[i];
    shortest = std::min(shortest, *std::max_element(load.begin(), load.end()));
    size_t digit = 0;
    while (digit < device_of.size() && ++device_of[digit] == devices) device_of[digit++] = 0;
    if (digit == device_of.size()) return shortest;
  }
}

TEST_CASE("the devices take about as long as each other") {
  std::vector<StepSignature> kernels = Kernels(2);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const std::map<Key, double> seconds = RandomSeconds(kernels, seed);
    std::map<std::string, double> operations;
    for (const StepSignature& kernel : kernels) {
      operations[SignatureText(AddsToGradients(kernel) ? WritingSignature(kernel) : kernel)] +=
          seconds.at(KeyOf(kernel));
    }
    // So few that all divisions can be tried.
    std::vector<double> times;
    std::set<std::string> kept;
    for (const auto& [operation, time] : operations) {
      if (times.size() == 9) break;
      times.push_back(time);
      kept.insert(operation);
    }
    std::vector<StepSignature> some;
    for (const StepSignature& kernel : kernels) {
      if (kept.contains(SignatureText(AddsToGradients(kernel) ? WritingSignature(kernel) : kernel)))
        some.push_back(kernel);
    }
    for (const size_t devices : {2, 3}) {
      const Shares shares = DivideKernels(
          some, [&](const StepSignature& kernel) { return seconds.at(KeyOf(kernel)); },
          static_cast<int64_t>(devices));
      const double shortest = Shortest(times, devices);
      CHECK(Longest(shares, seconds) >= shortest * (1 - 1e-9));
      CHECK(Longest(shares, seconds) <= shortest * 4 / 3);
    }
  }
}

TEST_CASE("a device without anything to do has an empty share") {
  const std::vector<StepSignature> kernels = {Kernels(1).front()};
  const Shares shares = DivideKernels(
      kernels, [](const StepSignature&) { return 1.0; }, 3);
  REQUIRE(shares.size() == 3);
  CHECK(shares[0].size() + shares[1].size() + shares[2].size() == 1);
}

}  // namespace
}  // namespace neap
