// Whether a network of the command line can have the options that it is given (nets/registry.h).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "neap/nets/registry.h"

namespace neap::nets {

// A DenseNet's size grows with the square of its depth.
inline constexpr int64_t kMaxBlocks = 20'000;
inline constexpr int64_t kMaxDenseLayers = 512;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;
inline constexpr int64_t kMaxDenseElements = int64_t{1} << 30;

// The options that only some networks have, and their limits.
struct Takes {
  bool dropout = false;
  int64_t aux_image = 0;  // the smallest with auxiliary classifiers; 0: it has none
  bool blocks = false;
  bool growth_rate = false;
  Depths depths = {};
  int64_t most_blocks = kMaxBlocks;
  int64_t most_elements = kMaxElements;  // of the input
  int64_t image_unit = 1;                // the image is a multiple of it
};

// Limits the sizes such that no product of shapes overflows 64 bits in any network.
// Errors: INVALID_ARGUMENT for an option that is out of range or that the network does not have.
absl::Status CheckOptions(const Network& network, const Takes& takes, const NetOptions& options);

}  // namespace neap::nets
