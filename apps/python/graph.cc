// Graph, layer by layer.
#include "neap/core/graph/graph.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/graph_changes.h"
#include "apps/python/loss_argument.h"
#include "apps/python/python_layer.h"
#include "apps/python/state/graph_state.h"
#include "neap/core/graph/with_options.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/registry.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

void Construct(Graph* graph, const std::string& name, int64_t batch, const DTypeName& dtype,
               const std::string& layout, bool fusion) {
  new (graph) Graph({.name = name,
                     .batch = batch,
                     .dtype = dtype.Parsed(),
                     .layout = Checked(ParseLayout(layout)),
                     .fusion = fusion});
}

std::string AddLayer(const nb::handle graph, const std::string& name, const nb::handle layer,
                     const nb::args& inputs) {
  std::vector<std::string> names;
  for (const nb::handle input : inputs) {
    if (!nb::isinstance<nb::str>(input)) throw nb::type_error("the inputs of a layer are names");
    names.push_back(nb::cast<std::string>(input));
  }
  return nb::cast<Graph&>(graph).Add(name, KeptLayer(layer, graph), std::move(names));
}

// One number for a vector, or (channels, height, width), (channels, time), or (channels, depth,
// height, width).
using ImageExtents = std::variant<int64_t, std::vector<int64_t>>;

Shape ToImageShape(const ImageExtents& extents) {
  if (const auto* const one = std::get_if<int64_t>(&extents)) return {*one, 1, 1};
  const std::vector<int64_t>& all = std::get<std::vector<int64_t>>(extents);
  if (all.size() == 1) return {all[0], 1, 1};
  if (all.size() >= 2 && all.size() <= 1 + kMaxSpatialAxes)
    return Shape(Shape::Dims(all.begin(), all.end()));
  throw nb::type_error(
      "a shape is (channels, height, width), (channels, time), (channels, depth, height, width), "
      "or "
      "the length of vectors");
}

std::string AddInput(Graph& graph, const ImageExtents& shape, const std::string& name,
                     const std::optional<std::string>& dtype) {
  if (dtype == "int32") {
    const auto* const extents = std::get_if<std::vector<int64_t>>(&shape);
    if (extents == nullptr) return graph.Input(name, {std::get<int64_t>(shape)}, DType::kInt32);
    return graph.Input(name, Shape({extents->begin(), extents->end()}), DType::kInt32);
  }
  std::optional<DType> type;
  if (dtype.has_value()) type = Checked(ParseDType(*dtype));
  return graph.Input(name, ToImageShape(shape), type);
}

// A height, a width, or a batch, which may be "fill".
using SizeNumber = std::variant<int64_t, std::string>;

GraphSize ToGraphSize(const std::vector<SizeNumber>& given) {
  const auto* const height = given.size() < 2 ? nullptr : std::get_if<int64_t>(&given[0]);
  const auto* const width = given.size() < 2 ? nullptr : std::get_if<int64_t>(&given[1]);
  const bool has_batch = given.size() == 3;
  const auto* const word = has_batch ? std::get_if<std::string>(&given[2]) : nullptr;
  const bool is_known = word == nullptr || *word == "fill";
  if (height == nullptr || width == nullptr || given.size() > 3 || !is_known) {
    throw nb::type_error(
        "a size is (height, width), (height, width, batch) or (height, width, \"fill\")");
  }
  GraphSize size = {.extents = {*height, *width}};
  if (word != nullptr) {
    size.batch = GraphSize::kFillsBudget;
  } else if (has_batch) {
    size.batch = std::get<int64_t>(given[2]);
    if (size.batch < 0) throw nb::value_error("the batch of a size is not negative");
  }
  return size;
}

void SetSizes(Graph& graph, const std::vector<std::vector<SizeNumber>>& given) {
  std::vector<GraphSize> sizes;
  for (const std::vector<SizeNumber>& size : given) sizes.push_back(ToGraphSize(size));
  graph.Sizes(std::move(sizes));
}

std::string AddLoss(Graph& graph, const std::string& predictions, const std::optional<Layer>& loss,
                    const std::optional<std::vector<int64_t>>& pixels,
                    const std::optional<ImageExtents>& targets) {
  const Layer layer = loss.value_or(SoftmaxCrossEntropy{});
  if (targets.has_value()) {
    if (pixels.has_value()) throw nb::type_error("a loss has either pixels or targets");
    return graph.TargetLoss(predictions, layer, ToImageShape(*targets));
  }
  if (!pixels.has_value()) return graph.Loss(predictions, layer);
  if (pixels->empty() || pixels->size() > kMaxSpatialAxes)
    throw nb::type_error("pixels are (height, width), (time,), or (depth, height, width)");
  return graph.PixelLoss(predictions, layer, Shape(Shape::Dims(pixels->begin(), pixels->end())));
}

// A graph has no attributes but those below: a misspelt one would otherwise be kept and do nothing.
void RefuseAttribute(nb::handle graph, const std::string& name, nb::handle value) {
  if (name == kKept) {
    if (PyObject_GenericSetAttr(graph.ptr(), nb::str(name.c_str()).ptr(), value.ptr()) != 0)
      throw nb::python_error();
    return;
  }
  const std::string message = absl::StrCat("neap.Graph has no attribute '", name,
                                           "' that can be set; with_options() makes a graph with "
                                           "another batch, dtype or layout");
  throw nb::attribute_error(message.c_str());
}

nb::list LayersOf(const Graph& graph) {
  nb::list layers;
  for (const GraphLayer& layer : graph.layers())
    layers.append(nb::make_tuple(layer.name, layer.layer, layer.inputs));
  return layers;
}

std::string ToText(const Graph& graph) {
  const GraphOptions& options = graph.options();
  return absl::StrCat("<neap.Graph '", options.name, "' batch=", options.batch, " ",
                      std::string(Name(options.dtype)), " ", std::string(Name(options.layout)),
                      ", ", graph.layers().size(), " layers>");
}

// A line for each layer, as print() shows a module of PyTorch.
std::string ToLines(const Graph& graph) {
  std::string text = ToText(graph);
  for (const GraphLayer& layer : graph.layers()) {
    const std::string parameters = layer.layer.Parameters();
    absl::StrAppend(&text, "\n  ", layer.name, ": ", std::string(layer.layer.type()),
                    parameters.empty() ? "" : " ", parameters);
    if (!layer.inputs.empty()) absl::StrAppend(&text, " of ", absl::StrJoin(layer.inputs, ", "));
  }
  return text;
}

}  // namespace

Graph Changed(const Graph& graph, const GraphChanges& changes) {
  GraphOptions options = graph.options();
  options.batch = changes.batch.value_or(options.batch);
  if (changes.dtype.has_value()) options.dtype = changes.dtype->Parsed();
  if (changes.layout.has_value()) options.layout = Checked(ParseLayout(*changes.layout));
  return WithOptions(graph, options);
}

void BindGraph(nb::module_& module) {
  nb::class_<Graph>(module, "Graph", nb::dynamic_attr(),
                    "A network: named layers, and the layers that each of them reads. Nothing is "
                    "checked before the\nnetwork is planned; errors then name the layer.")
      .def("__init__", Construct, "name"_a = "network", "batch"_a = 1, nb::kw_only(),
           "dtype"_a = "fp32", "layout"_a = "nchw", "fusion"_a = true)
      .def("input", AddInput, "shape"_a, "name"_a = "input", "dtype"_a = nb::none(),
           nb::sig("def input(self, shape: int | collections.abc.Sequence[int], name: str = "
                   "'input', dtype: str | None = None) -> str"),
           "A feed of the network, by default its images: (channels, height, width), (channels, "
           "time) of sequences,\n(channels, depth, height, width) of volumes, or the length of "
           "vectors. Its type is the network's, or 'fp32'\nor 'int32'; integers may have any "
           "shape, () for one. Returns the name.")
      .def("add", AddLayer, "name"_a, "layer"_a, "inputs"_a,
           nb::sig("def add(self, name: str, layer: Layer | CustomLayer, "
                   "*inputs: str) -> str"),
           "Adds a layer that reads the named ones. Returns its name.")
      .def("loss", AddLoss, "predictions"_a, "layer"_a = nb::none(), nb::kw_only(),
           "pixels"_a = nb::none(), "targets"_a = nb::none(),
           "Ends the network with a loss, softmax and cross-entropy by default, with a label for "
           "each image, or\nwith pixels=(height, width), (time,) or (depth, height, width) for "
           "each pixel. MeanSquaredError and "
           "BinaryCrossEntropy have\ntargets=(channels, height, width), the shape of an image's "
           "predictions.")
      .def(
          "add_loss",
          [](Graph& graph, const std::string& name, const Layer& layer,
             const std::string& predictions, const std::string& target) {
            return graph.Loss(name, layer, {predictions, target});
          },
          "name"_a, "layer"_a, "predictions"_a, "target"_a,
          "Adds a loss such as MeanSquaredError(weight=0.1), which compares predictions with an "
          "input. Training minimises\nthe sum of all losses times their weights.")
      .def(
          "output", [](Graph& graph, const std::string& layer) { graph.Output(layer); }, "layer"_a,
          "Makes what the layer computes a result of every iteration: StepResult.outputs.")
      .def(
          "output_with_gradient",
          [](Graph& graph, const std::string& layer) { graph.OutputWithGradient(layer); },
          "layer"_a,
          "Makes what the layer computes an output of which the caller computes a loss of its own: "
          "Session.forward() returns it,\nand Session.backward() takes the gradient of that loss "
          "with respect to it.")
      .def(
          "share",
          [](Graph& graph, const std::string& param, const std::string& owner) {
            graph.Share(param, owner);
          },
          "param"_a, "owner"_a,
          "Makes a layer use the parameter of another, of the same shape, instead of its own: "
          "share('decoder.weight',\n'encoder.weight').")
      .def(
          "store_as",
          [](Graph& graph, const std::string& param, const std::string& name,
             const std::vector<int64_t>& shape, bool transposed) {
            graph.StoreAs(param, {.name = name,
                                  .shape = Shape(Shape::Dims(shape.begin(), shape.end())),
                                  .transposed = transposed});
          },
          "param"_a, nb::kw_only(), "name"_a = "", "shape"_a = std::vector<int64_t>(),
          "transposed"_a = false,
          "Lets files of weights have a parameter by another name, in another shape, or "
          "transposed: "
          "\nstore_as('wpe.weight', shape=(1024, 768), transposed=True).")
      .def(
          "sizes", SetSizes, "sizes"_a,
          nb::sig("def sizes(self, sizes: "
                  "collections.abc.Iterable[collections.abc.Sequence[int | str]]) -> None"),
          "Trains with images of these sizes, too: each (height, width), or (height, width, batch)."
          " The batch \"fill\" is the\nlargest one that the budget holds without moving or "
          "rebuilding anything (Session.sizes). A session plans all at the\nbeginning, within one "
          "budget; a step has the size of the images that it is given.")
      .def(
          "auxiliary_loss",
          [](Graph& graph, const std::string& predictions, const Layer& layer) {
            return graph.AuxiliaryLoss(predictions, layer);
          },
          "predictions"_a, "layer"_a,
          "Adds a loss such as SoftmaxCrossEntropy(weight=0.3) of other predictions, "
          "with the labels or\ntargets of the loss, which has been added before. Training "
          "minimises and reports the loss plus the\nweighted auxiliary ones; evaluation and "
          "prediction leave them out.")
      .def(
          "with_options",
          [](const nb::handle graph, std::optional<int64_t> batch, std::optional<DTypeName> dtype,
             std::optional<std::string> layout) {
            nb::object changed = nb::cast(Changed(nb::cast<const Graph&>(graph),
                                                  {batch, std::move(dtype), std::move(layout)}));
            KeepLayersOf(graph, changed);
            return changed;
          },
          nb::kw_only(), "batch"_a = nb::none(), "dtype"_a = nb::none(), "layout"_a = nb::none(),
          nb::sig("def with_options(self, *, batch: int | None = None, dtype: str | object | None "
                  "= None, "
                  "layout: str | None = None) -> Graph"),
          "The same layers with another batch, element type or layout.")
      .def_prop_ro(
          "name", [](const Graph& graph) { return graph.options().name; },
          "The network's name in plans and reports.")
      .def_prop_ro(
          "batch", [](const Graph& graph) { return graph.options().batch; },
          "Images in a batch of training.")
      .def_prop_ro(
          "dtype", [](const Graph& graph) { return std::string(Name(graph.options().dtype)); },
          "The element type: 'fp32', 'tf32', 'fp16' or 'bf16'.")
      .def_prop_ro(
          "layout", [](const Graph& graph) { return std::string(Name(graph.options().layout)); },
          "How images lie in memory: 'nchw' or 'nhwc'.")
      .def_prop_ro("layers", LayersOf,
                   nb::sig("def layers(self) -> list[tuple[str, Layer, list[str]]]"),
                   "(name, layer, names of the inputs) of each layer, as they were added.")
      .def(
          "parameter_count",
          [](const Graph& graph) {
            return nets::ParameterCount(Checked(Resolve(graph, Mode::kTraining)));
          },
          "The number of learned values.")
      .def(
          "with_loss",
          [](const nb::handle graph, const nb::handle loss) {
            nb::object changed = nb::cast(WithLoss(nb::cast<const Graph&>(graph), ToLoss(loss)));
            KeepLayersOf(graph, changed);
            return changed;
          },
          "loss"_a, nb::sig("def with_loss(self, loss: str | Layer | object) -> Graph"),
          "The same layers with another loss: 'mse' or 'bce', which compare the predictions with "
          "targets, a layer such\nas MeanSquaredError(), or a criterion of torch.nn that computes "
          "the same.")
      .def("__getstate__", [](const Graph& graph) { return StateOf(graph); })
      .def("__setstate__",
           [](nb::pointer_and_handle<Graph> graph, const nb::tuple& state) {
             new (graph.p) Graph(GraphOf(state, graph.h));
           })
      .def("__setattr__", RefuseAttribute, "name"_a, "value"_a.none())
      .def("__repr__", ToText)
      .def("__str__", ToLines);
}

}  // namespace neap::python
