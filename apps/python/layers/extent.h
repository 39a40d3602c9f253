// Extents as Python's functions of layers take them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <variant>
#include <vector>

#include "neap/core/step/window.h"

namespace neap::python {

// One number for every axis, or one for each of 1 to 3 axes: (height, width).
using Extent = std::variant<int64_t, std::vector<int64_t>>;

inline Extents ToExtent(const Extent& extent) {
  if (const auto* const every = std::get_if<int64_t>(&extent)) return *every;
  const auto& each = std::get<std::vector<int64_t>>(extent);
  if (each.empty() || each.size() > kMaxSpatialAxes)
    throw nanobind::type_error("an extent is one number, or one for each of 1 to 3 axes");
  return Extents::Of(each);
}

}  // namespace neap::python
