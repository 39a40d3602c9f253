// from_onnx(), and the networks that it returns, whose weights a session starts from.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/python/argument_names.h"
#include "apps/python/arrays.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/graph_changes.h"
#include "apps/python/held_session.h"
#include "apps/python/loss_argument.h"
#include "apps/python/python_layer.h"
#include "apps/python/released.h"
#include "apps/python/state/graph_state.h"
#include "neap/nets/onnx/onnx_file.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

struct OnnxGraph : Graph {
  OnnxGraph(Graph graph, NamedValues values, std::vector<std::string> lines)
      : Graph(std::move(graph)), weights(std::move(values)), notices(std::move(lines)) {}
  NamedValues weights;
  std::vector<std::string> notices;
};

OnnxGraph Read(const std::filesystem::path& path, std::optional<int64_t> batch,
               std::optional<int64_t> image, const DTypeName& dtype, const std::string& layout,
               const nb::handle loss) {
  const nets::OnnxOptions options = {.batch = batch,
                                     .image = image,
                                     .dtype = dtype.Parsed(),
                                     .layout = Checked(ParseLayout(layout)),
                                     .loss = ToLoss(loss)};
  nets::OnnxModel model = Checked(Released([&] { return nets::ReadOnnx(path.string(), options); }));
  for (const std::string& notice : model.notices) {
    const std::string line = path.string() + ": " + notice;
    if (PyErr_WarnEx(PyExc_UserWarning, line.c_str(), 1) != 0) throw nb::python_error();
  }
  return {std::move(model.graph), std::move(model.weights), std::move(model.notices)};
}

// A session of the graph starts from its weights.
void Start(HeldSession& held, const OnnxGraph& graph) {
  Check(held.Use([&](Session& session) { return session.LoadWeights(graph.weights); }));
}

nb::dict WeightsOf(const OnnxGraph& graph) {
  nb::dict weights;
  for (const auto& [name, values] : graph.weights)
    weights[name.c_str()] = ToNumpy(values, {static_cast<int64_t>(values.size())});
  return weights;
}

}  // namespace

void BindOnnx(nb::module_& module) {
  nb::class_<OnnxGraph, Graph>(module, "OnnxGraph",
                               "A network from an ONNX file. A session of it starts from the "
                               "file's weights.")
      .def(
          "with_options",
          [](const nb::handle given, std::optional<int64_t> batch, std::optional<DTypeName> dtype,
             std::optional<std::string> layout) {
            const auto& graph = nb::cast<const OnnxGraph&>(given);
            const GraphChanges changes = {batch, std::move(dtype), std::move(layout)};
            nb::object changed =
                nb::cast(OnnxGraph(Changed(graph, changes), graph.weights, graph.notices));
            KeepLayersOf(given, changed);
            return changed;
          },
          nb::kw_only(), "batch"_a = nb::none(), "dtype"_a = nb::none(), "layout"_a = nb::none(),
          nb::sig("def with_options(self, *, batch: int | None = None, dtype: str | object | None "
                  "= None, "
                  "layout: str | None = None) -> OnnxGraph"),
          "The same layers and weights with another batch, element type or layout.")
      .def(
          "with_loss",
          [](const OnnxGraph&, const nb::handle) -> OnnxGraph {
            Raise(absl::UnimplementedError(
                "a network from a file is read with its loss, because that decides whether a "
                "softmax at its end is left to the loss: from_onnx(loss=) and from_torch(loss=)"));
          },
          "loss"_a, nb::sig("def with_loss(self, loss: str | Layer | object) -> OnnxGraph"),
          "Raises neap.Error: give the loss to from_onnx() or from_torch().")
      .def("__getstate__",
           [](const OnnxGraph& graph) {
             return nb::make_tuple(StateOf(static_cast<const Graph&>(graph)), WeightsOf(graph),
                                   graph.notices);
           })
      .def("__setstate__",
           [](nb::pointer_and_handle<OnnxGraph> graph, const nb::tuple& state) {
             NamedValues weights = ToValues(nb::cast<nb::dict>(state[1]));
             new (graph.p)
                 OnnxGraph(GraphOf(nb::cast<nb::tuple>(state[0]), graph.h), std::move(weights),
                           nb::cast<std::vector<std::string>>(state[2]));
           })
      .def_prop_ro("weights", WeightsOf, nb::sig("def weights(self) -> dict[str, numpy.ndarray]"),
                   "The values of each parameter and running statistic, flat, by its name.")
      .def_ro("notices", &OnnxGraph::notices,
              "What training changes of the network, which from_onnx() also warns of: weights that "
              "nodes share,\nof which each gets a copy.");
  module.def("_start_from_weights", Start, "session"_a, "net"_a);
  module.def(
      "from_onnx", Read, "path"_a, nb::kw_only(), "batch"_a = nb::none(), "image"_a = nb::none(),
      "dtype"_a = "fp32", "layout"_a = "nchw", "loss"_a = "cross-entropy",
      nb::sig("def from_onnx(path: str | os.PathLike, *, batch: int | None = None, "
              "image: int | None = None, dtype: str | object = 'fp32', layout: str = 'nchw', "
              "loss: str | Layer | object = 'cross-entropy') -> OnnxGraph"),
      "The network in an ONNX file, with its weights; docs/onnx.md lists the operators. The "
      "batch is the one that\nthe file states, or 32, unless another is given. `image` is the "
      "height and width, where the file leaves them\nopen or states others. `loss` is one that "
      "Graph.with_loss() takes; what it computes itself is dropped at the\nend of the network. "
      "Warns of weights that nodes share, of which each trains a copy.");
}

}  // namespace neap::python
