#include "apps/python/state/graph_state.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/python/errors.h"
#include "apps/python/python_layer.h"

namespace neap::python {
namespace {

namespace nb = nanobind;

// Name, layer, inputs and role.
using LayerState = std::tuple<std::string, nb::object, std::vector<std::string>, int>;
// Extents and batch.
using SizeState = std::pair<std::vector<int64_t>, int64_t>;
// A parameter, and its name, shape and order in files (FileForm).
using StoredState = std::tuple<std::string, std::string, std::vector<int64_t>, bool>;
// Name, batch, element type, layout, fusion, layers, outputs, shared parameters with their owners,
// the forms of parameters in files, the prefix and the ends of names that other files have, and
// sizes. Outputs say whether the caller gives their gradients.
using GraphState =
    std::tuple<std::string, int64_t, std::string, std::string, bool, std::vector<LayerState>,
               std::vector<std::pair<std::string, bool>>,
               std::vector<std::pair<std::string, std::string>>, std::vector<StoredState>,
               std::pair<std::string, std::vector<std::string>>, std::vector<SizeState>>;

nb::object ObjectOf(const Layer& layer) {
  const auto* const custom = layer.As<PythonLayer>();
  return custom != nullptr ? custom->Object() : nb::cast(layer);
}

LayerRole RoleOf(int role) {
  if (role >= 0 && role <= static_cast<int>(LayerRole::kAuxiliaryLoss))
    return static_cast<LayerRole>(role);
  throw nb::type_error("a layer has no such role");
}

}  // namespace

nb::tuple StateOf(const Graph& graph) {
  const GraphOptions& options = graph.options();
  std::vector<LayerState> layers;
  for (const GraphLayer& layer : graph.layers())
    layers.emplace_back(layer.name, ObjectOf(layer.layer), layer.inputs,
                        static_cast<int>(layer.role));
  std::vector<std::pair<std::string, bool>> outputs;
  for (const GraphOutput& output : graph.outputs())
    outputs.emplace_back(output.name, output.takes_gradient);
  std::vector<std::pair<std::string, std::string>> shared;
  for (const SharedParam& one : graph.shared()) shared.emplace_back(one.param, one.owner);
  std::vector<SizeState> sizes;
  for (const GraphSize& size : graph.sizes()) sizes.emplace_back(size.extents, size.batch);
  std::vector<StoredState> stored;
  for (const auto& [param, form] : graph.stored()) {
    const Shape::Dims& dims = form.shape.dims();
    stored.emplace_back(param, form.name, std::vector<int64_t>(dims.begin(), dims.end()),
                        form.transposed);
  }
  const OtherFiles& others = options.other_files;
  return nb::make_tuple(options.name, options.batch, std::string(Name(options.dtype)),
                        std::string(Name(options.layout)), options.fusion, layers, outputs, shared,
                        stored, std::pair(others.prefix, others.ignored), sizes);
}

Graph GraphOf(const nb::tuple& state, nb::handle kept_by) {
  const auto [name, batch, dtype, layout, fusion, layers, outputs, shared, stored, others, sizes] =
      nb::cast<GraphState>(state);
  Graph graph({.name = name,
               .batch = batch,
               .dtype = Checked(ParseDType(dtype)),
               .layout = Checked(ParseLayout(layout)),
               .fusion = fusion,
               .other_files = {.prefix = others.first, .ignored = others.second}});
  for (const auto& [layer, definition, inputs, role] : layers)
    graph.Add({layer, KeptLayer(definition, kept_by), inputs, RoleOf(role)});
  for (const auto& [layer, takes_gradient] : outputs)
    takes_gradient ? graph.OutputWithGradient(layer) : graph.Output(layer);
  for (const auto& [param, owner] : shared) graph.Share(param, owner);
  for (const auto& [param, own_name, shape, transposed] : stored) {
    graph.StoreAs(param, {.name = own_name,
                          .shape = Shape(Shape::Dims(shape.begin(), shape.end())),
                          .transposed = transposed});
  }
  std::vector<GraphSize> all;
  for (const auto& [extents, of_size] : sizes)
    all.push_back({.extents = extents, .batch = of_size});
  graph.Sizes(std::move(all));
  return graph;
}

}  // namespace neap::python
