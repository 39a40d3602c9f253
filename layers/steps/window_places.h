// What the bias of a window of a Swin transformer depends on (Attention::window_bias), of each
// position of a window and of each window of an image. Kernels of every backend compute it anew:
//
//   const WindowPlace query = places.At(i), key = places.At(j);
//   const int row = query.row - key.row + places.center();  // of the table
//   const bool is_masked = ((query.wrapped ^ key.wrapped) & places.CutAxes(window)) != 0;
//
// A window that is the last along a shifted axis is cut: its last positions were the image's first.
//
//                 window 7, shift 3, along an axis of 14
//   window 0          window 1
//   3 4 5 6 7 8 9     10 11 12 13 | 0 1 2    positions of the image; those behind | are wrapped
#pragma once

#include "neap/core/base/tensor.h"

namespace neap {

// What torchvision adds to the score of a pair whose positions are not of one region.
inline constexpr float kOtherRegion = -100;

// Of a position in a window.
struct WindowPlace {
  int row = 0;  // the bias of a query and a key depends on the difference of theirs
  unsigned wrapped =
      0;  // the axes along which it is wrapped if the window is cut there, a bit each
};

// The distances from a key to a query, of which a window has some pairs.
struct WindowOffset {
  int d = 0, h = 0, w = 0;               // query - key
  int depth = 0, height = 0, width = 0;  // the box of the queries of such pairs

  constexpr int pairs() const { return depth * height * width; }
};
struct WindowPair {
  int query = 0, key = 0;
};

// constexpr, so that CUDA kernels call the same code (--expt-relaxed-constexpr). Axes that an image
// lacks are the first ones, of extent 1.
class WindowPlaces {
 public:
  int window[kMaxSpatialAxes] = {1, 1, 1};
  int shift[kMaxSpatialAxes] = {0, 0, 0};
  int grid[kMaxSpatialAxes] = {1, 1, 1};  // windows along each axis

  constexpr WindowPlace At(int position) const {
    const int row = position / window[2], plane = row / window[1];
    const int d = plane, h = row - plane * window[1], w = position - row * window[2];
    return {.row = (d * (2 * window[1] - 1) + h) * (2 * window[2] - 1) + w,
            .wrapped = (d >= window[0] - shift[0] ? 1U : 0U) |
                       (h >= window[1] - shift[1] ? 2U : 0U) |
                       (w >= window[2] - shift[2] ? 4U : 0U)};
  }
  // The axes along which a window of the image is the last, a bit each.
  constexpr unsigned CutAxes(int number) const {
    const int row = number / grid[2], plane = row / grid[1];
    return (plane + 1 == grid[0] ? 1U : 0U) | (row - plane * grid[1] + 1 == grid[1] ? 2U : 0U) |
           (number - row * grid[2] + 1 == grid[2] ? 4U : 0U);
  }
  constexpr int windows() const { return grid[0] * grid[1] * grid[2]; }
  // The row of the table that a position has with itself.
  constexpr int center() const { return offsets() / 2; }
  // Rows of the table.
  constexpr int offsets() const {
    return (2 * window[0] - 1) * (2 * window[1] - 1) * (2 * window[2] - 1);
  }
  // Of a row of the table.
  constexpr WindowOffset Offset(int row) const {
    const int line = row / (2 * window[2] - 1), plane = line / (2 * window[1] - 1);
    const int d = plane - window[0] + 1, h = line % (2 * window[1] - 1) - window[1] + 1;
    const int w = row % (2 * window[2] - 1) - window[2] + 1;
    return {.d = d,
            .h = h,
            .w = w,
            .depth = window[0] - (d < 0 ? -d : d),
            .height = window[1] - (h < 0 ? -h : h),
            .width = window[2] - (w < 0 ? -w : w)};
  }
  // Pair `number` of those with the offset, from 0.
  constexpr WindowPair Pair(const WindowOffset& offset, int number) const {
    const int row = number / offset.width, plane = row / offset.height;
    const int key = Position(plane + (offset.d < 0 ? -offset.d : 0),
                             row % offset.height + (offset.h < 0 ? -offset.h : 0),
                             number % offset.width + (offset.w < 0 ? -offset.w : 0));
    return {.query = key + Position(offset.d, offset.h, offset.w), .key = key};
  }

 private:
  constexpr int Position(int d, int h, int w) const { return (d * window[1] + h) * window[2] + w; }
};

}  // namespace neap
