// Random convolutions, transposed ones too, run in random parts of their batch on any backend, and
// held against the undivided step by the same engine: y and dx must have its bits, where the engine
// treats every image alike; gradients of parameters are sums in another order, so they must be
// close. All repeat their own bits.
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
  bool only_3x3 = false;    // with stride 1 and padding 1, which Winograd's engines are for
  size_t most_engines = 4;  // of each step, in the backend's order
  std::function<bool(const Engine&)> is_tried = [](const Engine&) { return true; };
  // |divided - whole| <= tolerance * largest |whole| of the tensor, of parameter gradients and of
  // engines that do not treat every image alike
  double tolerance = 1e-5;
  std::function<bool(const Engine&)> treats_images_alike = [](const Engine&) { return true; };
};

struct DividedResult {
  std::vector<std::string> failures;  // one sentence per violation, with the case's seed
  // Comparisons made: with parts that write, into scratch after the first, and with parts whose
  // engine adds by itself.
  int64_t writing = 0, adding = 0;
};

DividedResult RunDividedConvolutions(Backend& backend, const DeviceAccess& access,
                                     const DividedOptions& options);

}  // namespace neap::testing
