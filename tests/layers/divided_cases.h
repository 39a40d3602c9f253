// Runs random convolutions, including transposed ones and those with a ReLU, in random parts of
// their batch on any backend, and compares them with the undivided step of the same engine: y and
// dx must have the same bits if the engine treats every image alike; gradients of parameters, which
// are sums in another order, must be close. All must repeat their own bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/layers/harness.h"

namespace neap::testing {

struct DividedOptions {
  int cases = 50;
  uint32_t seed = 1;
  DType dtype = DType::kFp32;
  int64_t most_channels = 9;
  int axes = 2;             // 3 of volumes
  bool only_3x3 = false;    // with stride 1 and padding 1, as Winograd's engines require
  size_t most_engines = 4;  // of each step, in the backend's order
  std::function<bool(const Engine&)> is_tried = [](const Engine&) { return true; };
  // |divided - whole| <= tolerance * largest |whole| of the tensor, for parameter gradients and for
  // engines that do not treat every image alike
  double tolerance = 1e-5;
  std::function<bool(const Engine&)> treats_images_alike = [](const Engine&) { return true; };
};

struct DividedResult {
  std::vector<std::string> failures;  // one sentence per violation, with the case's seed
  // Numbers of comparisons: with parts that write, into scratch memory after the first, and with
  // parts whose engine adds by itself.
  int64_t writing = 0, adding = 0;
};

DividedResult RunDividedConvolutions(Backend& backend, const DeviceAccess& access,
                                     const DividedOptions& options);

}  // namespace neap::testing
