#include "neap/core/graph/graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/graph/source.h"

namespace neap {
namespace {

const std::string& OwnerName(const ResolvedLayer& layer, int owner) {
  return layer.owners.empty() ? layer.name : layer.owners[static_cast<size_t>(owner)];
}

Shape WithBatch(int64_t batch, const Shape& image) {
  Shape::Dims dims = {batch};
  dims.insert(dims.end(), image.dims().begin(), image.dims().end());
  return Shape(std::move(dims));
}

}  // namespace

std::string OutputName(std::string_view layer, int index) {
  return index == 0 ? std::string(layer) : absl::StrCat(std::string(layer), ":", index);
}

std::string ResolvedGraph::NameOf(LayerOutput output) const {
  return OutputName(Producer(output).name, output.index);
}

std::vector<TensorSpec> ResolvedGraph::InputSpecs(const ResolvedLayer& layer) const {
  std::vector<TensorSpec> specs;
  for (LayerOutput input : layer.inputs) specs.push_back(SpecOf(input));
  return specs;
}

Role OutputRole(const ResolvedLayer& layer) {
  if (layer.role != LayerRole::kFeed) return Role::kActivation;
  return layer.is_target ? Role::kLabel : Role::kInput;
}

std::string ParamName(const ResolvedLayer& layer, const ParamSpec& param) {
  std::string name = absl::StrCat(OwnerName(layer, param.owner), ".", param.name);
  const auto shared = std::find_if(layer.shared.begin(), layer.shared.end(),
                                   [&](const SharedParam& one) { return one.param == name; });
  return shared == layer.shared.end() ? name : shared->owner;
}

std::string StateName(const ResolvedLayer& layer, const StateSpec& state) {
  return absl::StrCat(OwnerName(layer, state.owner), ".", state.name);
}

std::string Graph::Input(Shape chw) { return Input("input", chw); }

std::string Graph::Input(std::string name, const Shape& shape, std::optional<DType> dtype) {
  Feed feed = {.tensor = {WithBatch(options_.batch, shape), dtype.value_or(options_.dtype)},
               .has_network_type = !dtype.has_value()};
  if (feed.has_channels()) feed.tensor.layout = options_.layout;
  return Add({std::move(name), std::move(feed), {}, LayerRole::kFeed});
}

std::string Graph::Add(std::string name, Layer layer, std::vector<std::string> inputs) {
  return Add({std::move(name), std::move(layer), std::move(inputs), LayerRole::kInner});
}

std::string Graph::Add(GraphLayer layer) {
  layers_.push_back(std::move(layer));
  return layers_.back().name;
}

std::string Graph::Loss(std::string name, Layer loss, std::vector<std::string> inputs) {
  return Add({std::move(name), std::move(loss), std::move(inputs), LayerRole::kLoss});
}

std::string Graph::Loss(std::string predictions, Layer loss) {
  return PixelLoss(std::move(predictions), std::move(loss), {});
}

std::string Graph::PixelLoss(std::string predictions, Layer loss, const Shape& extents) {
  Input("labels", extents.elements() == 1 ? Shape{} : extents, DType::kInt32);
  return Loss("loss", std::move(loss), {std::move(predictions), "labels"});
}

std::string Graph::TargetLoss(std::string predictions, Layer loss, Shape chw) {
  Input("targets", chw, DType::kFp32);
  return Loss("loss", std::move(loss), {std::move(predictions), "targets"});
}

std::string Graph::AuxiliaryLoss(const std::string& predictions, Layer loss) {
  std::string wanted = "labels";
  for (const GraphLayer& layer : layers_) {
    if (layer.role == LayerRole::kLoss && layer.inputs.size() > 1) wanted = layer.inputs[1];
  }
  return Add({absl::StrCat(predictions, ".loss"),
              std::move(loss),
              {predictions, std::move(wanted)},
              LayerRole::kAuxiliaryLoss});
}

bool ScalesLoss(const GraphOptions& options) { return options.dtype == DType::kFp16; }

LayerContext ContextIn(const GraphOptions& options, Mode mode, std::vector<TensorSpec> inputs) {
  return {.inputs = std::move(inputs),
          .mode = mode,
          .dtype = options.dtype,
          .layout = options.layout,
          .scales_loss = mode == Mode::kTraining && ScalesLoss(options)};
}

}  // namespace neap
