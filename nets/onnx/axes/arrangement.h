// How the elements of a layer's output lie in a tensor of an ONNX graph.
//
// A layer has the axes {N, C} and 1 to 3 spatial axes. ONNX's tensors have any number of them, in
// any order: {N, T, C}, {N, C * H * W}, {N, heads, T, C / heads}. Flatten, Reshape, Transpose and
// the like move no element of a network that is read; they only give it other axes. An arrangement
// says which: each axis of the tensor is a list of factors, from the outermost on, and a factor is
// an axis of the layer or a part of one. An axis C of 6 that is divided into 2 groups is the
// factors {1, 2, 3} and {1, 3, 1}: steps of 3 channels, and of 1.
//
//   layer {N, 6, 4, 5}           as it is             [N] [C] [H] [W]
//   Reshape    {N, 2, 3, 20}     groups of channels   [N] [C 2 steps of 3] [C 3] [H, W]
//   Transpose  {N, 20, 2, 3}     their channels last  [N] [H, W] [C 2 steps of 3] [C 3]
//   Reshape    {N, 20, 6}        the patches' tokens  [N] [H, W] [C]
//
// Axes of 1 have no factors, but for N: the batch of the file may be 1, and the network's another.
// Attention, the windows of Swin, shuffles of channels and pixels, and the transposes of ConvNeXt
// are all seen in the factors. A layer moves elements only where an operator needs other axes than
// the layer before it has (nets/onnx/axes/rearrange.h).
//
//   const Arrangement images = Arrangement::OfLayer({1, 768, 14, 14});
//   const Arrangement tokens = images.Reshaped({1, 768, 196})->Transposed({0, 2, 1});
//   tokens.dims();         // {1, 196, 768}
//   tokens.IsWhole(2, 1);  // the channels
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace neap::nets {

// `extent` places along an axis of the layer (0 is N, 1 is C), `stride` apart.
struct Factor {
  int axis = 0;
  int64_t extent = 1;
  int64_t stride = 1;
  friend bool operator==(const Factor&, const Factor&) = default;
};
using Factors = std::vector<Factor>;  // outermost first

// The product of the extents.
int64_t ExtentOf(const Factors& factors);
// The same factors without those of 1, and neighbours that are one part of an axis as one.
Factors Joined(const Factors& factors);

class Arrangement {
 public:
  // Those of a layer of these extents, where N is the file's: {N, C, H, W}, {N, H, W, C}, and
  // {N, C * H * W}.
  static Arrangement OfLayer(std::vector<int64_t> layer);
  static Arrangement ChannelsLast(std::vector<int64_t> layer);
  static Arrangement Flat(std::vector<int64_t> layer);
  // With these axes, of a layer of these extents.
  Arrangement(std::vector<int64_t> layer, std::vector<Factors> axes);
  Arrangement() = default;

  const std::vector<int64_t>& layer() const { return layer_; }
  const std::vector<Factors>& axes() const { return axes_; }
  size_t rank() const { return axes_.size(); }
  std::vector<int64_t> dims() const;

  // Whether the axis of the tensor is that one of the layer, all of it and nothing else.
  bool IsWhole(size_t axis, int of_layer) const;
  // Whether the axis of the tensor is N and nothing else, and whether N is a part of it: N may be
  // moved.
  bool IsImages(size_t axis) const;
  bool HasImages(size_t axis) const;
  bool IsOfLayer() const { return *this == OfLayer(layer_); }
  bool IsChannelsLast() const { return *this == ChannelsLast(layer_); }
  bool IsFlat() const { return *this == Flat(layer_); }
  // Whether the elements of each image are numbered as the layer's.
  bool IsInOrder() const;
  // "[N] [C 2 of 6] [H, W]", say.
  std::string ToString() const;

  // The tensor with other extents; absent if an axis would get a part of one that is not divisible
  // so, or a part of N.
  std::optional<Arrangement> Reshaped(const std::vector<int64_t>& dims) const;
  // Axis i is axis order[i].
  Arrangement Transposed(const std::vector<int64_t>& order) const;
  // With an axis of 1 before `axis`, and without this one, which must be of 1.
  Arrangement Inserted(size_t axis) const;
  Arrangement Removed(size_t axis) const;
  // The same with a layer whose axis `of_layer`, which is all of `axis`, has this extent.
  Arrangement WithExtent(size_t axis, int of_layer, int64_t extent) const;

  friend bool operator==(const Arrangement&, const Arrangement&) = default;

 private:
  std::vector<int64_t> layer_;
  std::vector<Factors> axes_;
};

// What gives a layer's output other axes: a reshape to `divided`, a permutation by `order`, and a
// reshape to `layer`, each of the axes behind N, and each only if it is there.
struct Rearrangement {
  std::vector<int64_t> divided = {};
  std::vector<int64_t> order = {};  // from 1
  std::vector<int64_t> layer = {};
  Arrangement arrangement = {};  // the same tensor, of the new layer
  bool IsNothing() const { return divided.empty() && order.empty() && layer.empty(); }
  friend bool operator==(const Rearrangement&, const Rearrangement&) = default;
};

// The same tensor of a layer of these extents, whose axes behind N are the wanted ones, C first.
Arrangement Renamed(const Arrangement& from, const std::vector<Factors>& wanted,
                    std::vector<int64_t> layer);

// The axes of a layer of which one is that axis of the tensor, and the others are what comes before
// and behind it in the layer.
std::vector<Factors> Isolated(const Arrangement& from, size_t axis);

// Gives the layer one axis for each of `wanted`, C first, which together have all factors of the
// tensor but N. Absent if the permutation has more than `max_axes` axes.
std::optional<Rearrangement> Rearrange(const Arrangement& from, const std::vector<Factors>& wanted,
                                       size_t max_axes);

}  // namespace neap::nets
