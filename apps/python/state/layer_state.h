// Layers as plain Python values, for pickle and copy: the type, then the fields.
#pragma once

#include <nanobind/nanobind.h>

#include "neap/core/step/layer.h"

namespace neap::python {

// Throws TypeError for a layer that neither Python nor a network of neap.nets can have.
nanobind::tuple StateOf(const Layer& layer);

// The layer that StateOf() has described. Throws TypeError for anything else.
Layer LayerOf(const nanobind::tuple& state);

}  // namespace neap::python
