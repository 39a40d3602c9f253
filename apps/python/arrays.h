// NumPy arrays as arguments, and as results that own the values of a vector.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace neap::python {

// An array in C order on the CPU; arguments of other types are made one in apps/python/neap.
template <typename T>
using InArray = nanobind::ndarray<const T, nanobind::c_contig, nanobind::device::cpu>;
// An array in C order in a GPU's memory.
template <typename T>
using GpuArray = nanobind::ndarray<const T, nanobind::c_contig, nanobind::device::cuda>;
template <typename T>
using OutArray = nanobind::ndarray<nanobind::numpy, T>;

template <typename T>
OutArray<T> ToNumpy(std::vector<T> values, const std::vector<int64_t>& shape) {
  auto* const kept = new std::vector<T>(std::move(values));
  const nanobind::capsule owner(
      kept, [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
  const std::vector<size_t> extents(shape.begin(), shape.end());
  return OutArray<T>(kept->data(), extents.size(), extents.data(), owner);
}

// Values by name, from arrays of any shape.
inline std::map<std::string, std::vector<float>, std::less<>> ToValues(
    const nanobind::dict& arrays) {
  std::map<std::string, std::vector<float>, std::less<>> values;
  for (const auto& [name, given] : arrays) {
    const auto array = nanobind::cast<InArray<float>>(given);
    values[nanobind::cast<std::string>(name)].assign(array.data(), array.data() + array.size());
  }
  return values;
}

template <typename Array>
std::vector<int64_t> ShapeOf(const Array& array) {
  return {array.shape_ptr(), array.shape_ptr() + array.ndim()};
}

}  // namespace neap::python
