// A layer that is written in Python: a neap.CustomLayer (docs/python.md), on the CPU device.
//
// One C++ definition stands for all of them. The object states the shapes and, by the parameters of
// its functions, which operands each step has (apps/python/neap/custom_layer.py checks that). A
// kernel calls the object's function for the step with NumPy arrays over the operands' memory.
//
// The library calls definitions and kernels without the GIL and from any thread, so both acquire
// it. What they raise becomes a status (apps/python/errors.h).
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/layer.h"
#include "neap/layers/catalog/custom_kernel.h"

namespace neap::python {

// *Ownership*: of a weak reference alone, because the object's class often refers to the graph that
// it is in, and Python's garbage collector does not see what C++ owns. The graphs and sessions in
// Python keep the object (KeptLayer(), apps/python/neap/session.py).
// *Threads*: any, with or without the GIL, but for the constructor, which needs it.
class PythonLayer {
 public:
  static constexpr std::string_view kType = "python";

  explicit PythonLayer(nanobind::handle layer);

  // Errors: INVALID_ARGUMENT with what the object's functions raise, or is wrong with them, also
  // that it no longer exists.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  // The object's class, and a number that no other definition has.
  std::string Parameters() const;
  // Calls the object's function for a step. Errors: INTERNAL with what it raises.
  absl::Status Run(const CustomRun& step) const;
  // Throws ValueError if the object no longer exists. Needs the GIL.
  nanobind::object Object() const;

  friend bool operator==(const PythonLayer&, const PythonLayer&) = default;

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

// The attribute by which a graph in Python keeps layers that are written in Python.
inline constexpr const char* kKept = "_custom_layers";

// A neap.Layer, or a neap.CustomLayer as one, which `graph` in Python then keeps. Throws TypeError
// for anything else. Needs the GIL, as KeepLayersOf() does.
Layer KeptLayer(nanobind::handle layer, nanobind::handle graph);

// Makes `graph` keep the layers that `other` keeps.
void KeepLayersOf(nanobind::handle other, nanobind::handle graph);

// The kernels of all layers that are written in Python.
std::vector<CustomKernel> PythonKernels();

// Errors: UNIMPLEMENTED naming the first layer that is written in Python, if the device is another
// than the CPU.
absl::Status CheckPythonLayers(const Graph& net, const DeviceDescription& device);

}  // namespace neap::python
