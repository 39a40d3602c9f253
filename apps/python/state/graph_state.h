// Graphs as plain Python values, for pickle and copy.
#pragma once

#include <nanobind/nanobind.h>

#include "neap/core/graph/graph.h"

namespace neap::python {

// Holds the objects of layers that are written in Python. Throws TypeError as StateOf(Layer) does.
nanobind::tuple StateOf(const Graph& graph);

// The graph that StateOf() has described; `kept_by` is the object in Python that will be it, and
// keeps those layers. Throws TypeError for anything else.
Graph GraphOf(const nanobind::tuple& state, nanobind::handle kept_by);

}  // namespace neap::python
