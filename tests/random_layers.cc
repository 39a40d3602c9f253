#include "tests/random_layers.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/crop.h"
#include "neap/layers/prelu.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"

namespace neap::testing {

Window RandomWindow(RandomChoices& choices, int64_t axes, int64_t kernel, int64_t padding,
                    int64_t dilation) {
  if (axes < 3) return {kernel, 1, padding, dilation};
  switch (choices.Between(0, 3)) {
    case 0:
      return {{kernel, 1, 1}, 1, {padding, 0, 0}, {dilation, 1, 1}};
    case 1:
      return {{1, 1, kernel}, 1, {0, 0, padding}, {1, 1, dilation}};
    case 2:
      return {{1, kernel, kernel}, 1, {0, padding, padding}, {1, dilation, dilation}};
    default:
      return {kernel, 1, padding, dilation};
  }
}

KindOfLayer RandomActivation(RandomChoices& choices, int64_t channels) {
  switch (choices.Between(0, 10)) {
    case 0:
      return {"leaky_relu", LeakyRelu{0.1F}};
    case 1:
      return {"clip", Clip{-0.4F, 0.6F}};
    case 2:
      return {"hard_sigmoid", HardSigmoid{}};
    case 3:
      return {"hard_swish", HardSwish{}};
    case 4:
      return {"gelu", Gelu{}};
    case 5:
      return {"gelu", Gelu{Gelu::Approximation::kTanh}};
    case 6:
      return {"elu", Elu{0.7F}};
    case 7:
      return {"softplus", Softplus{.beta = 2}};
    case 8:
      return {"mish", Mish{}};
    case 9:
      return {"prelu", Prelu{.slopes = choices.Chance(2) ? 1 : channels}};
    default:
      return {"silu", Silu{}};
  }
}

std::vector<KindOfLayer> MovesOf(int number, int64_t axes, int64_t size) {
  if (number % 3 == 0) {
    if (number % 8 < 4) return {{"tile", Tile{.repeats = 2}}, {"cut", Crop{size, size / 2}}};
    return {{"roll", Roll{number % 5 - 2}}};
  }
  const size_t all = static_cast<size_t>(axes) + 1;  // channels, too
  if (number % 3 == 1) {
    std::vector<int64_t> extents(all, size);
    extents[0] = 0;
    return {{"reshape", Reshape{{0, -1}}}, {"reshape", Reshape{extents}}};
  }
  std::vector<int64_t> order(all);
  for (size_t i = 0; i < all; ++i) order[i] = static_cast<int64_t>((i + 1) % all) + 1;
  return std::vector<KindOfLayer>(all, {"permute", Permute{order}});
}

void ShareParams(RandomChoices& choices, Graph& net) {
  const ResolvedGraph resolved = Resolve(net, Mode::kTraining).value();
  std::map<std::string, std::string> owners;  // the last one of a name and shape
  for (const ResolvedLayer& layer : resolved.layers) {
    for (const ParamSpec& param : layer.spec.params) {
      const std::string name = absl::StrCat(layer.name, ".", param.name);
      std::string& owner = owners[absl::StrCat(std::string(layer.layer.type()), param.name,
                                               param.tensor.ToString())];
      if (!owner.empty() && !layer.name.starts_with("vector_gate") && choices.Chance(2))
        net.Share(name, owner);
      owner = name;
    }
  }
}

Graph Shuffled(RandomChoices& choices, const Graph& net) {
  std::vector<GraphLayer> layers = net.layers();
  for (size_t i = layers.size(); i > 1; --i) {
    std::swap(layers[i - 1],
              layers[static_cast<size_t>(choices.Between(0, static_cast<int64_t>(i) - 1))]);
  }
  Graph graph(net.options(), net);
  for (GraphLayer& layer : layers) graph.Add(std::move(layer));
  return graph;
}

}  // namespace neap::testing
