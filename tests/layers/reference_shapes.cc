#include "tests/layers/reference_shapes.h"

#include <vector>

#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"

namespace neap::testing {
namespace {

using namespace operands;
using Indices = std::vector<int64_t>;

Indices IndicesOf(const Shape& shape, int64_t element) {
  Indices at(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[static_cast<size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return at;
}

int64_t ElementAt(const Shape& shape, const Indices& at) {
  int64_t element = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    element = element * shape[axis] + at[static_cast<size_t>(axis)];
  return element;
}

// The window of the position, and its place in that, as {N, C, windows, positions} has them.
Indices InWindows(const Indices& at, const Shape& image, const Extents& window) {
  Indices result = {at[0], at[1], 0, 0};
  for (int i = 0; i < image.spatial_axes(); ++i) {
    const int64_t place = at[static_cast<size_t>(i) + 2];
    result[2] = result[2] * (image[2 + i] / window[i]) + place / window[i];
    result[3] = result[3] * window[i] + place % window[i];
  }
  return result;
}

// The element of y that element `i` of x becomes.
int64_t PlaceInY(const Layer& layer, const Shape& x, const Shape& y, int64_t i) {
  const Indices at = IndicesOf(x, i);
  if (const auto* const permute = layer.As<Permute>()) {
    Indices moved = {at[0]};
    for (const int64_t axis : permute->axes) moved.push_back(at[static_cast<size_t>(axis)]);
    return ElementAt(y, moved);
  }
  if (const auto* const roll = layer.As<Roll>()) {
    Indices moved = at;
    for (int axis = 2; axis < x.rank(); ++axis) {
      int64_t& place = moved[static_cast<size_t>(axis)];
      place = ((place + roll->shift[axis - 2]) % x[axis] + x[axis]) % x[axis];
    }
    return ElementAt(y, moved);
  }
  if (const auto* const partition = layer.As<WindowPartition>())
    return ElementAt(y, InWindows(at, x, partition->window));
  return i;
}

}  // namespace

Values ReferenceShapes(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Operand from = forward ? X() : Dy(), to = forward ? Y() : Dx();
  const Shape& x = signature.Spec(forward ? from : to).shape;
  const Shape& y = signature.Spec(forward ? to : from).shape;
  const auto* const merge = signature.layer.As<WindowMerge>();
  const std::vector<double>& read = given.at(from);
  std::vector<double> result(read.size());
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t in_x = i, in_y = i;
    if (merge != nullptr) {
      in_x = ElementAt(x, InWindows(IndicesOf(y, i), y, merge->window));
    } else {
      in_y = PlaceInY(signature.layer, x, y, i);
    }
    const auto read_at = static_cast<size_t>(forward ? in_x : in_y);
    result[static_cast<size_t>(forward ? in_y : in_x)] = read[read_at];
  }
  return {{to, result}};
}

Values ReferenceTile(const StepSignature& signature, const Values& given) {
  const bool forward = signature.phase == Phase::kForward;
  const Shape& x = signature.Spec(forward ? X() : Dx()).shape;
  const Shape& y = signature.Spec(forward ? Y() : Dy()).shape;
  const std::vector<double>& read = given.at(forward ? X() : Dy());
  std::vector<double> result(static_cast<size_t>((forward ? y : x).elements()));
  for (int64_t i = 0; i < y.elements(); ++i) {
    Indices at = IndicesOf(y, i);
    for (int axis = 0; axis < y.rank(); ++axis) at[static_cast<size_t>(axis)] %= x[axis];
    const auto in_x = static_cast<size_t>(ElementAt(x, at)), in_y = static_cast<size_t>(i);
    if (forward) {
      result[in_y] = read[in_x];
    } else {
      result[in_x] += read[in_y];
    }
  }
  return {{forward ? Y() : Dx(), result}};
}

}  // namespace neap::testing
