// The elements of a tensor in another order: layers that only move elements are one copy each.
//
//   a {2, 3} matrix   its transpose has the axes {extent 3, stride 1} and {extent 2, stride 3}:
//   0 1 2             0 3
//   3 4 5             1 4
//                     2 5
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace neap {

struct Permutation {
  // Of the result, which is contiguous. `stride` is the distance in the source between neighbours.
  // The result begins with element `first` of the source's axis, whose first element follows its
  // last one. With a stride of 0, the same elements of the source are repeated.
  struct Axis {
    int64_t extent = 1, stride = 1, first = 0;
  };
  static constexpr int kMaxAxes = 9;     // the images, and two for each other axis
  std::array<Axis, kMaxAxes> axes = {};  // outermost first
  int count = 1;

  const Axis& innermost() const { return axes[static_cast<size_t>(count) - 1]; }
};

}  // namespace neap
