#include "tests/random_splits.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/join.h"

namespace neap::testing {
namespace {

class Splitter {
 public:
  Splitter(const Graph& net, uint32_t seed)
      : random_(seed), layers_(net.layers()), net_(net.options(), net) {}

  Graph Build(const ResolvedGraph& resolved) {
    for (const ResolvedLayer& layer : resolved.layers) {
      const Shape& shape = layer.spec.output.shape;
      const bool has_channels = layer.role == LayerRole::kInner && shape.spatial_axes() > 0;
      if (has_channels && shape.c() >= 3 && Chance(3)) MaySplit(layer.name, shape.c());
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

  // Some readers of the layer read what is made of its parts instead.
  void MaySplit(const std::string& name, int64_t channels) {
    std::vector<std::string*> readers;
    for (GraphLayer& layer : layers_) {
      for (std::string& input : layer.inputs) {
        if (input == name && !Chance(3)) readers.push_back(&input);
      }
    }
    if (readers.empty()) return;
    const std::string joined = Split(name, channels);
    for (std::string* const reader : readers) *reader = joined;
  }

  // Returns the name of a value with as many channels.
  std::string Split(const std::string& name, int64_t channels) {
    const std::string split = absl::StrCat(name, ".split");
    const std::string second = OutputName(split, 1);
    const int64_t first = 1 + Below(channels / 3);
    const auto add = [&](std::vector<int64_t> parts) {
      net_.Add(split, ChannelSplit{std::move(parts)}, {name});
    };
    const auto join = [&](std::vector<std::string> parts) {
      return net_.Add(absl::StrCat(name, ".joined"), Concat{}, std::move(parts));
    };
    switch (Below(4)) {
      case 0:  // both outputs lead to the loss, and one is a result
        add({first, channels - first});
        if (Chance(2)) net_.Output(second);
        return join({second, split});
      case 1:  // one output is read twice, and one not at all
        add({first, channels - 2 * first, first});
        return join({second, split, net_.Add(absl::StrCat(name, ".tanh"), Tanh{}, {split})});
      case 2:  // no loss depends on output 0
        add({first, channels - first});
        net_.Output(split);
        return join(
            {net_.Add(absl::StrCat(name, ".slice"), ChannelSlice{0, first}, {name}), second});
      default:
        add({first, 1, channels - first - 1});
        return join(
            {net_.Add(absl::StrCat(name, ".relu"), Relu{}, {split}), OutputName(split, 2), second});
    }
  }

  std::mt19937 random_;
  std::vector<GraphLayer> layers_;
  Graph net_;
};

}  // namespace

Graph WithSplits(const Graph& net, uint32_t seed) {
  return Splitter(net, seed).Build(Resolve(net, Mode::kTraining).value());
}

}  // namespace neap::testing
