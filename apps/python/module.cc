// The extension module of the Python package (docs/python.md).
#include <nanobind/nanobind.h>

#include "apps/python/bindings.h"
#include "neap/core/base/version.h"

NB_MODULE(_neap, module) {
  module.doc() = "The C++ library of neap.";
  module.attr("__version__") = NEAP_VERSION;
  neap::python::BindLayers(module);
  neap::python::BindNormLayers(module);
  neap::python::BindShapeLayers(module);
  neap::python::BindTokenLayers(module);
  neap::python::BindLossLayers(module);
  neap::python::BindGraph(module);
  neap::python::BindNets(module);
  neap::python::BindData(module);
  neap::python::BindPlan(module);
  neap::python::BindPeak(module);
  neap::python::BindProfile(module);
  neap::python::BindLearningRate(module);
  neap::python::BindSession(module);
  neap::python::BindOnnx(module);
}
