#include "neap/layers/profile/profile_shares.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "neap/core/step/signature_text.h"

namespace neap {
namespace {

// Kernels with the same one are measured by one device.
std::string OperationOf(const StepSignature& kernel) {
  return SignatureText(AddsToGradients(kernel) ? WritingSignature(kernel) : kernel);
}

}  // namespace

std::vector<std::vector<StepSignature>> DivideKernels(
    const std::vector<StepSignature>& kernels,
    const std::function<double(const StepSignature&)>& seconds, int64_t devices) {
  absl::flat_hash_map<std::string, size_t> numbers;  // of operations, in order of appearance
  std::vector<size_t> operation_of;                  // by kernel
  std::vector<double> operation_seconds;
  for (const StepSignature& kernel : kernels) {
    const size_t number = numbers.try_emplace(OperationOf(kernel), numbers.size()).first->second;
    operation_of.push_back(number);
    operation_seconds.resize(numbers.size());
    operation_seconds[number] += seconds(kernel);
  }
  std::vector<size_t> longest_first(operation_seconds.size());
  std::iota(longest_first.begin(), longest_first.end(), size_t{0});
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](size_t a, size_t b) { return operation_seconds[a] > operation_seconds[b]; });
  std::vector<double> load(static_cast<size_t>(devices));
  std::vector<size_t> device_of(operation_seconds.size());
  for (const size_t operation : longest_first) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += operation_seconds[operation];
    device_of[operation] = static_cast<size_t>(least - load.begin());
  }
  std::vector<std::vector<StepSignature>> shares(load.size());
  for (size_t i = 0; i < kernels.size(); ++i)
    shares[device_of[operation_of[i]]].push_back(kernels[i]);
  return shares;
}

}  // namespace neap
