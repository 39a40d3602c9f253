// What random networks (tests/random_graph.h) are made of, chosen by a seed.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/core/step/specify.h"

namespace neap::testing {

// Numbers that are the same with every standard library, as those of
// std::uniform_int_distribution are not.
class RandomChoices {
 public:
  explicit RandomChoices(uint32_t seed) : random_(seed) {}
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Chance(int64_t one_in) { return Between(1, one_in) == 1; }

 private:
  std::mt19937 random_;
};

// A window with the same numbers along each axis, or along some axes of volumes: those along the
// first or the last one alone have the kernels of images (layers/catalog/kernel_axes.h).
Window RandomWindow(RandomChoices& choices, int64_t axes, int64_t kernel, int64_t padding,
                    int64_t dilation = 1);

// The beginning of a layer's name, and the layer.
using KindOfLayer = std::pair<const char*, Layer>;

// An activation of values of so many channels.
KindOfLayer RandomActivation(RandomChoices& choices, int64_t channels);

// The layers, one behind the other, that `number` chooses to leave the same elements in other
// places, or some of them twice, and, if they had other axes, these again.
std::vector<KindOfLayer> MovesOf(int number, int64_t axes, int64_t size);

// Some layers use the weights, biases, or both, of an earlier layer with the same ones.
void ShareParams(RandomChoices& choices, Graph& net);

// The same network with its layers stated in another order.
Graph Shuffled(RandomChoices& choices, const Graph& net);

}  // namespace neap::testing
