// Random networks, for tests that must hold for every network: planning, verification, bit-equality
// of training.
//
// Planners fail not on depth but on structure: forks whose branches differ in length, joins of
// three, sums of a tensor with itself, skips out of a nested block, gradients that are shared and
// then accumulated into. Every seed gives one valid network that combines these, small enough to
// train on a CPU in milliseconds, and the same on every machine.
//
//   const Graph graph = RandomGraph(seed, {.batch = 4});
//   CAPTURE(seed);
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"
#include "tests/random_seeds.h"

namespace neap::testing {

struct RandomGraphOptions {
  int64_t batch = 2;
  int axes = 2;       // of images; 1 of sequences, 3 of volumes
  int64_t image = 8;  // extent of each of these axes; at least 4
  int64_t channels = 3;
  int64_t max_channels = 8;
  int64_t classes = 4;
  int min_blocks = 2;  // on the main path, each a layer or a fork with its join
  int max_blocks = 7;
  int max_nesting = 2;     // of forks
  bool batch_norm = true;  // else a tanh in its place
  bool dropout = true;     // else a tanh in its place
  // With norms that do not couple images in the place of a tanh and of every second batch norm.
  bool image_norms = false;
  // With attention between all positions, of tensors apart or in one.
  bool attention = false;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
  bool fusion = true;
  // Sums are those of ResNets: of batch norms, with a ReLU behind them, often two in a row.
  bool residual = false;
  bool dense =
      false;  // concatenations are those of DenseNets: a batch norm reads them, then a ReLU
  // With pairs of layers that read the same value, a sum if `residual`: products, concatenations,
  // poolings of all kinds. Some add to its gradient themselves.
  bool read_twice = false;
  // With inverted residual blocks of networks for mobile devices: depthwise convolutions, squeeze
  // and excitation, products, and activations that others do not have.
  bool mobile = false;
  // With an auxiliary loss or two, for predictions from values on the main path.
  bool auxiliary = false;
  // With a second feed, by which gates are computed that may share their weights, a second loss
  // with labels or targets of its own, and outputs of values on the main path.
  bool ports = false;
  // With layers that share the parameters of earlier ones.
  bool shares = false;
};

Graph RandomGraph(uint32_t seed, const RandomGraphOptions& options = {});

}  // namespace neap::testing
