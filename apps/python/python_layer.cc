#include "apps/python/python_layer.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "apps/python/errors.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"

namespace neap::python {
namespace {

namespace nb = nanobind;

// The parts of the result of CustomLayer._specify().
using Dims = std::vector<int64_t>;
using GivenOperand = std::tuple<std::string, int, std::string>;            // slot, index, name
using GivenParameter = std::tuple<std::string, Dims, std::string, float>;  // name, shape, init
using GivenSaved = std::pair<std::string, Dims>;
using GivenPair = std::pair<GivenOperand, GivenOperand>;
using GivenStep = std::tuple<std::string, std::vector<GivenOperand>, std::vector<GivenOperand>,
                             std::vector<GivenPair>>;  // phase, reads, writes, in place
using Given = std::tuple<Dims, std::vector<GivenParameter>, std::vector<GivenSaved>,
                         std::vector<GivenStep>, bool>;

constexpr std::pair<std::string_view, Slot> kSlots[] = {
    {"input", Slot::kInput},          {"output", Slot::kOutput},
    {"input_grad", Slot::kInputGrad}, {"output_grad", Slot::kOutputGrad},
    {"param", Slot::kParam},          {"param_grad", Slot::kParamGrad},
    {"saved", Slot::kSaved},
};
constexpr std::pair<std::string_view, Init::Kind> kInits[] = {
    {"constant", Init::Kind::kConstant},
    {"normal", Init::Kind::kNormal},
    {"uniform", Init::Kind::kUniform},
};

template <typename Row, size_t kCount>
const Row& RowOf(const Row (&rows)[kCount], const std::string& name) {
  for (const Row& row : rows) {
    if (row.first == name) return row;
  }
  std::string known;
  for (const Row& row : rows)
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(row.first));
  throw nb::value_error(absl::StrCat("'", name, "' is none of ", known).c_str());
}

Operand ToOperand(const GivenOperand& operand) {
  return {RowOf(kSlots, std::get<0>(operand)).second, std::get<1>(operand)};
}

std::vector<Operand> ToOperands(const std::vector<GivenOperand>& given) {
  std::vector<Operand> operands;
  for (const GivenOperand& operand : given) operands.push_back(ToOperand(operand));
  return operands;
}

TensorSpec ToTensor(const std::string& name, const Dims& dims) {
  constexpr size_t kMaxAxes = 2 + kMaxSpatialAxes;
  if (dims.empty() || dims.size() > kMaxAxes) {
    throw nb::value_error(
        absl::StrCat("'", name, "' has ", dims.size(), " axes, not 1 to 5").c_str());
  }
  return {.shape = Shape(Shape::Dims(dims.begin(), dims.end()))};
}

TensorSpec ToOutput(const TensorSpec& x, const Dims& dims) {
  TensorSpec y = ToTensor("y", dims);
  if (y.shape.spatial_axes() == 0 || y.shape.n() != x.shape.n()) {
    throw nb::value_error(
        absl::StrCat("output() returns the shape ", y.shape.ToString(),
                     ", which is not (n, channels) and 1 to 3 spatial axes with n = ", x.shape.n())
            .c_str());
  }
  return WithShape(x, y.shape);
}

StepSpec ToStep(const GivenStep& given) {
  const auto& [phase, reads, writes, in_place] = given;
  StepSpec step = {.phase = Checked(ParsePhase(phase)),
                   .reads = ToOperands(reads),
                   .writes = ToOperands(writes)};
  for (const auto& [result, source] : in_place)
    step.in_place.emplace_back(ToOperand(result), ToOperand(source));
  return step;
}

LayerSpec ToSpec(const Given& given, const TensorSpec& x) {
  const auto& [output, parameters, saved, steps, independent_images] = given;
  LayerSpec spec = {.output = ToOutput(x, output),
                    .steps = {},
                    .traits = {.independent_images = independent_images}};
  for (const auto& [name, shape, init, scale] : parameters) {
    spec.params.push_back({.name = name,
                           .tensor = ToTensor(name, shape),
                           .init = {.kind = RowOf(kInits, init).second, .scale = scale}});
  }
  for (const auto& [name, shape] : saved)
    spec.saved.push_back({.name = name, .tensor = ToTensor(name, shape)});
  for (const GivenStep& step : steps) spec.steps.push_back(ToStep(step));
  return spec;
}

Dims ToDims(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

// Elements from one position along each axis to the next.
Dims StridesOf(const TensorSpec& tensor) {
  const Shape& shape = tensor.shape;
  Dims strides(shape.dims().size(), 1);
  for (size_t axis = strides.size() - 1; axis > 0; --axis)
    strides[axis - 1] = strides[axis] * shape.dims()[axis];
  if (shape.spatial_axes() == 0 || tensor.layout == Layout::kChannelsFirst) return strides;
  for (size_t axis = 2; axis < strides.size(); ++axis) strides[axis] *= shape.c();
  strides[1] = 1;
  return strides;
}

// A NumPy array of T over the memory of an operand, without a copy.
template <typename T>
nb::object ArrayOver(const TensorSpec& tensor, void* memory) {
  const std::vector<size_t> shape(tensor.shape.dims().begin(), tensor.shape.dims().end());
  const nb::ndarray<nb::numpy, T> array(static_cast<T*>(memory), shape.size(), shape.data(),
                                        nb::handle(), StridesOf(tensor).data());
  return nb::cast(array, nb::rv_policy::reference);
}

absl::StatusOr<CustomFunction> FunctionFor(const StepSignature& signature) {
  const auto* const layer = signature.layer.As<PythonLayer>();
  if (layer == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is no layer of this package: ", signature.layer.Parameters()));
  }
  return CustomFunction([layer = *layer](const CustomRun& step) { return layer.Run(step); });
}

// The attribute of a graph in Python that has the layers that it keeps, by their ids.
void Keep(nb::handle layer, nb::handle graph) {
  if (!nb::hasattr(graph, kKept)) graph.attr(kKept) = nb::dict();
  const nb::int_ id(reinterpret_cast<uintptr_t>(layer.ptr()));
  graph.attr(kKept)[id] = layer;
}

}  // namespace

struct PythonLayer::Held {
  explicit Held(nb::handle layer)
      : reference(nb::module_::import_("weakref").attr("ref")(layer)),
        class_name(nb::cast<std::string>(layer.type().attr("__qualname__"))) {
    static std::atomic<int64_t> count = 0;
    number = ++count;
  }
  // The last owner may be any thread, or outlive the interpreter.
  ~Held() {
    if (!nb::is_alive()) {
      reference.release();
      return;
    }
    const nb::gil_scoped_acquire acquired;
    reference.reset();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  // Throws ValueError if another definition of the layer has another name for the operand.
  void Name(const GivenOperand& given) {
    const Operand operand = ToOperand(given);
    const auto& name = std::get<2>(given);
    for (const auto& [known, its_name] : names) {
      if (known == operand && its_name == name) return;
      if (known == operand)
        throw nb::value_error(absl::StrCat("'", its_name, "' was called '", name, "'").c_str());
    }
    names.emplace_back(operand, name);
  }
  const std::string& NameOf(Operand operand) const {
    for (const auto& [known, name] : names) {
      if (known == operand) return name;
    }
    throw nb::value_error(absl::StrCat("unknown operand ", ToString(operand)).c_str());
  }

  nb::object reference;  // a weakref.ref
  std::string class_name;
  int64_t number = 0;
  std::vector<std::pair<Operand, std::string>> names;  // guarded by the GIL
};

PythonLayer::PythonLayer(nb::handle layer) : held_(std::make_shared<Held>(layer)) {}

nb::object PythonLayer::Object() const {
  nb::object object = held_->reference();
  if (!object.is_none()) return object;
  throw nb::value_error(absl::StrCat("the ", held_->class_name,
                                     " no longer exists, because the graph that it was added to "
                                     "does not")
                            .c_str());
}

std::string PythonLayer::Parameters() const {
  return absl::StrCat("class=", held_->class_name, " number=", held_->number);
}

absl::StatusOr<LayerSpec> PythonLayer::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputsAtLeast(context, 1));
  const nb::gil_scoped_acquire acquired;
  return Caught(absl::StatusCode::kInvalidArgument, [&]() -> LayerSpec {
    nb::list inputs;
    for (const TensorSpec& input : context.inputs)
      inputs.append(nb::tuple(nb::cast(ToDims(input.shape))));
    const auto given =
        nb::cast<Given>(Object().attr("_specify")(inputs, context.mode == Mode::kTraining));
    for (const auto& [phase, reads, writes, in_place] : std::get<3>(given)) {
      for (const GivenOperand& operand : reads) held_->Name(operand);
      for (const GivenOperand& operand : writes) held_->Name(operand);
    }
    return ToSpec(given, context.inputs[0]);
  });
}

absl::Status PythonLayer::Run(const CustomRun& step) const {
  const nb::gil_scoped_acquire acquired;
  const StepSignature& signature = step.signature;
  return Caught(absl::StatusCode::kInternal,
                [&] {
                  nb::dict arrays;
                  for (size_t i = 0; i < signature.operands.size(); ++i) {
                    const auto& [operand, tensor, access] = signature.operands[i];
                    void* const memory = step.run.operands[i];
                    arrays[held_->NameOf(operand).c_str()] =
                        access == Access::kRead ? ArrayOver<const float>(tensor, memory)
                                                : ArrayOver<float>(tensor, memory);
                  }
                  Object().attr("_run")(std::string(Name(signature.phase)), arrays);
                  return true;
                })
      .status();
}

Layer KeptLayer(nb::handle layer, nb::handle graph) {
  if (nb::isinstance<Layer>(layer)) {
    auto given = nb::cast<Layer>(layer);
    if (const auto* const custom = given.As<PythonLayer>()) Keep(custom->Object(), graph);
    return given;
  }
  const nb::object base = nb::module_::import_("neap.custom_layer").attr("CustomLayer");
  const int is_custom = PyObject_IsInstance(layer.ptr(), base.ptr());
  if (is_custom < 0) throw nb::python_error();
  if (is_custom == 0) throw nb::type_error("a layer is a neap.Layer or a neap.CustomLayer");
  Keep(layer, graph);
  return PythonLayer(layer);
}

void KeepLayersOf(nb::handle other, nb::handle graph) {
  if (nb::hasattr(other, kKept)) graph.attr(kKept) = other.attr(kKept).attr("copy")();
}

std::vector<CustomKernel> PythonKernels() {
  std::vector<CustomKernel> kernels;
  for (const Phase phase : {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams}) {
    kernels.push_back({.layer_type = std::string(PythonLayer::kType),
                       .phase = phase,
                       .make = FunctionFor,
                       .engine = "python"});
  }
  return kernels;
}

absl::Status CheckPythonLayers(const Graph& net, const DeviceDescription& device) {
  if (device.kind == "cpu") return absl::OkStatus();
  for (const GraphLayer& layer : net.layers()) {
    if (layer.layer.As<PythonLayer>() == nullptr) continue;
    return absl::UnimplementedError(absl::StrCat(
        "layer '", layer.name, "' (", layer.layer.Parameters(),
        "): the kernels of a layer that is written in Python run on the device cpu only, not on ",
        device.name));
  }
  return absl::OkStatus();
}

}  // namespace neap::python
