// A loss as an argument of Python.
#pragma once

#include <nanobind/nanobind.h>

#include "neap/core/graph/graph.h"
#include "neap/core/step/layer.h"

namespace neap::python {

// A neap.Layer, a name as in `neap train --loss`, or a criterion of torch.nn that computes the
// same. Throws TypeError for anything else, and ValueError for a criterion that differs.
Layer ToLoss(nanobind::handle given);

// The network with this loss in the place of its own. Throws apps/python/errors.h.
Graph WithLoss(const Graph& net, const Layer& loss);

}  // namespace neap::python
