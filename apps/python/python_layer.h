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

// *Ownership*: shares the object with its copies. *Threads*: any, with or without the GIL, but for
// the constructor, which needs it.
class PythonLayer {
 public:
  static constexpr std::string_view kType = "python";

  explicit PythonLayer(nanobind::object layer);

  // Errors: INVALID_ARGUMENT with what the object's functions raise, or is wrong with them.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  // The object's class, and a number that no other definition has.
  std::string Parameters() const;
  // Calls the object's function for a step. Errors: INTERNAL with what it raises.
  absl::Status Run(const CustomRun& step) const;

  friend bool operator==(const PythonLayer&, const PythonLayer&) = default;

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

// A neap.Layer, or a neap.CustomLayer as one. Throws TypeError for anything else. Needs the GIL.
Layer ToLayer(nanobind::handle layer);

// The kernels of all layers that are written in Python.
std::vector<CustomKernel> PythonKernels();

// Errors: UNIMPLEMENTED naming the first layer that is written in Python, if the device is another
// than the CPU.
absl::Status CheckPythonLayers(const Graph& net, const DeviceDescription& device);

}  // namespace neap::python
