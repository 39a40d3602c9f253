// A graph with other options, from Python's arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/python/argument_names.h"
#include "neap/core/graph/graph.h"

namespace neap::python {

struct GraphChanges {
  std::optional<int64_t> batch = {};
  std::optional<DTypeName> dtype = {};
  std::optional<std::string> layout = {};
};

// Throws apps/python/errors.h.
Graph Changed(const Graph& graph, const GraphChanges& changes);

}  // namespace neap::python
