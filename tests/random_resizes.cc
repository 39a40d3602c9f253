#include "tests/random_resizes.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/step/window.h"
#include "neap/layers/activation.h"
#include "neap/layers/pooling.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"

namespace neap::testing {
namespace {

class Resizer {
 public:
  Resizer(const Graph& net, uint32_t seed)
      : random_(seed), layers_(net.layers()), net_(net.options(), net) {}

  Graph Build(const ResolvedGraph& resolved) {
    for (const ResolvedLayer& layer : resolved.layers) {
      const Shape& shape = layer.spec.output.shape;
      if (layer.role == LayerRole::kInner && shape.spatial_axes() > 0 && Chance(3))
        MayResize(layer.name, shape);
    }
    for (GraphLayer& layer : layers_) net_.Add(std::move(layer));
    return std::move(net_);
  }

 private:
  // Not std::uniform_int_distribution: its numbers differ between standard libraries.
  int64_t Below(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }
  bool Chance(int64_t one_in) { return Below(one_in) == 0; }

  // Some readers of the layer read what is resized instead.
  void MayResize(const std::string& name, const Shape& shape) {
    std::vector<std::string*> readers;
    for (GraphLayer& layer : layers_) {
      for (std::string& input : layer.inputs) {
        if (input == name && !Chance(3)) readers.push_back(&input);
      }
    }
    if (readers.empty()) return;
    const std::string resized = Resized(name, shape);
    for (std::string* const reader : readers) *reader = resized;
  }

  // Extents from 1 to 2 more than those of the shape.
  Extents OtherSizes(const Shape& shape) {
    std::vector<int64_t> sizes;
    for (const int64_t extent : shape.spatial()) sizes.push_back(1 + Below(extent + 2));
    return Extents::Of(sizes);
  }
  Resize To(const Extents& sizes) {
    return {.sizes = sizes,
            .mode = static_cast<Resize::Mode>(Below(3)),
            .coordinates = static_cast<Resize::Coordinates>(Below(3)),
            .rounding = static_cast<Resize::Rounding>(Below(4))};
  }

  // Returns the name of a value of the same shape.
  std::string Resized(const std::string& name, const Shape& shape) {
    const std::string smaller = absl::StrCat(name, ".other_size");
    const std::string between = absl::StrCat(name, ".between"), back = absl::StrCat(name, ".back");
    const Extents own = Extents::Of(shape.spatial()), other = OtherSizes(shape);
    const auto is_odd = [](int64_t extent) { return extent % 2 != 0; };
    const bool has_blocks =
        std::none_of(shape.spatial().begin(), shape.spatial().end(), is_odd) && Chance(2);
    if (has_blocks) {
      const bool blocks_first = Chance(2);
      net_.Add(smaller, PixelUnshuffle{.blocks_first = blocks_first}, {name});
      net_.Add(between, Tanh{}, {smaller});
      return net_.Add(back, PixelShuffle{.blocks_first = !blocks_first}, {between});
    }
    if (!other.AllAre(1) && Chance(2)) {
      net_.Add(smaller, AdaptiveAveragePool{.size = other}, {name});
    } else {
      net_.Add(smaller, To(other), {name});
    }
    return net_.Add(back, To(own), {net_.Add(between, Tanh{}, {smaller})});
  }

  std::mt19937 random_;
  std::vector<GraphLayer> layers_;
  Graph net_;
};

}  // namespace

Graph WithResizes(const Graph& net, uint32_t seed) {
  return Resizer(net, seed).Build(Resolve(net, Mode::kTraining).value());
}

}  // namespace neap::testing
