// The parts of the module neap._neap, one function for each file.
#pragma once

#include <nanobind/nanobind.h>

namespace neap::python {

void BindLayers(nanobind::module_& module);
// After BindLayers().
void BindNormLayers(nanobind::module_& module);
void BindShapeLayers(nanobind::module_& module);
void BindTokenLayers(nanobind::module_& module);
void BindLossLayers(nanobind::module_& module);
void BindGraph(nanobind::module_& module);
void BindNets(nanobind::module_& module);
void BindData(nanobind::module_& module);
void BindPlan(nanobind::module_& module);
void BindPeak(nanobind::module_& module);
void BindProfile(nanobind::module_& module);
void BindLearningRate(nanobind::module_& module);
void BindSession(nanobind::module_& module);  // after BindLearningRate()
void BindOnnx(nanobind::module_& module);     // after BindSession()

}  // namespace neap::python
