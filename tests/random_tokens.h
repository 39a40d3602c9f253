// Random networks of sequences of ids, as language models and vision transformers are: embeddings,
// learned positions and tokens, norms and linear layers at each position, and losses for each.
//
//   const Graph graph = RandomTokenGraph(seed, {.dtype = DType::kBf16});
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::testing {

struct RandomTokenOptions {
  int64_t batch = 3;
  int64_t positions = 7;
  int64_t vocabulary = 11;
  int64_t channels = 8;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
  bool fusion = true;
};

// The feeds are "ids" and "next", of numbers below the vocabulary.
Graph RandomTokenGraph(uint32_t seed, const RandomTokenOptions& options = {});

}  // namespace neap::testing
