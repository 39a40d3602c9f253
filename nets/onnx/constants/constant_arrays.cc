#include "neap/nets/onnx/constants/constant_arrays.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace neap::nets {
namespace {

int64_t Product(const Dims& dims, size_t first, size_t last) {
  int64_t product = 1;
  for (size_t i = first; i < last; ++i) product *= dims[i];
  return product;
}

// Calls f(first element, elements) of the runs that an axis and those behind it make, in order.
template <typename F>
void ForEachRun(const Constant& array, size_t axis, F f) {
  const int64_t run = Product(array.dims, axis, array.dims.size());
  if (run == 0) return;
  for (int64_t begin = 0; begin < std::ssize(array.values); begin += run) f(begin, run);
}

}  // namespace

Dims StridesOf(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Constant View(const Constant& from, Dims dims, const Dims& strides, int64_t offset) {
  Constant view = {.dims = std::move(dims), .values = {}, .type = from.type};
  const int64_t count = Product(view.dims, 0, view.dims.size());
  view.values.reserve(static_cast<size_t>(count));
  Dims index(view.dims.size(), 0);
  int64_t position = offset;
  for (int64_t i = 0; i < count; ++i) {
    view.values.push_back(from.values[static_cast<size_t>(position)]);
    for (size_t axis = index.size(); axis-- > 0;) {
      position += strides[axis];
      if (++index[axis] < view.dims[axis]) break;
      position -= strides[axis] * view.dims[axis];
      index[axis] = 0;
    }
  }
  return view;
}

std::optional<Dims> BroadcastDims(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() < b.size() ? b : a;
  const Dims& shorter = a.size() < b.size() ? a : b;
  Dims dims = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& extent = dims[offset + i];
    if (extent == 1) extent = shorter[i];
    if (shorter[i] != 1 && shorter[i] != extent) return std::nullopt;
  }
  return dims;
}

Constant BroadcastTo(const Constant& from, const Dims& dims) {
  if (from.dims == dims) return from;
  const Dims own = StridesOf(from.dims);
  Dims strides(dims.size(), 0);
  const size_t offset = dims.size() - from.dims.size();
  for (size_t i = 0; i < from.dims.size(); ++i) {
    if (from.dims[i] != 1) strides[offset + i] = own[i];
  }
  return View(from, dims, strides);
}

bool HasSameEntries(const Constant& array) {
  if (array.dims.empty() || array.dims[0] < 1) return false;
  const auto entry = std::ssize(array.values) / array.dims[0];
  return std::equal(array.values.begin() + entry, array.values.end(), array.values.begin());
}

Constant Taken(const Constant& from, size_t axis, const Dims& positions) {
  Constant taken = {.dims = from.dims, .values = {}, .type = from.type};
  taken.dims[axis] = std::ssize(positions);
  const int64_t row = Product(from.dims, axis + 1, from.dims.size());
  ForEachRun(from, axis, [&](int64_t begin, int64_t) {
    for (const int64_t position : positions) {
      const auto first = from.values.begin() + begin + position * row;
      taken.values.insert(taken.values.end(), first, first + row);
    }
  });
  return taken;
}

Constant Concatenated(const std::vector<Constant>& parts, size_t axis) {
  Constant whole = {.dims = parts[0].dims, .values = {}, .type = parts[0].type};
  whole.dims[axis] = 0;
  for (const Constant& part : parts) whole.dims[axis] += part.dims[axis];
  const int64_t outer = Product(whole.dims, 0, axis);
  for (int64_t i = 0; i < outer; ++i) {
    for (const Constant& part : parts) {
      const int64_t run = std::ssize(part.values) / outer;
      const auto first = part.values.begin() + i * run;
      whole.values.insert(whole.values.end(), first, first + run);
    }
  }
  return whole;
}

}  // namespace neap::nets
