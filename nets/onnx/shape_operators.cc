// Operators that give the elements of images other axes, or take some of them.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/crop.h"
#include "neap/layers/pooling.h"
#include "neap/nets/onnx/constant_folding.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

// The axes of images that a list of axes names, sorted. Negative ones count from the end.
std::vector<int64_t> Normalised(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  std::sort(axes.begin(), axes.end());
  return axes;
}

const std::vector<int64_t> kHeightAndWidth = {2, 3};

// Sets the output to the same elements with the axes of an image, or as vectors.
absl::Status SetFlat(NodeReader& node, NetworkBuilder& network, ImageValue x, bool is_flat) {
  x.is_flat = is_flat;
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

bool HasOnePixel(const ImageValue& x) { return x.spec.shape.h() * x.spec.shape.w() == 1; }

// The target of a reshape without its special entries: 0 and -1, and the batch of the file.
absl::StatusOr<std::vector<int64_t>> Target(NodeReader& node, const NetworkBuilder& network,
                                            const ImageValue& x) {
  ASSIGN_OR_RETURN(const Constant constant, node.Constant(1));
  std::vector<int64_t> target = ToIntegers(constant);
  const std::vector<int64_t> dims = x.dims();
  const bool zero_copies = node.Int("allowzero", 0) == 0;  // otherwise 0 is an extent
  if (!target.empty() && target[0] == network.file_batch() && target[0] > 0)
    target[0] = network.batch();
  int64_t known = 1;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && zero_copies && i < dims.size()) target[i] = dims[i];
    if (target[i] != -1) known = SaturatingProduct(known, std::max<int64_t>(target[i], 0));
  }
  for (int64_t& extent : target) {
    if (extent == -1 && known > 0) extent = x.spec.elements() / known;
  }
  return target;
}

}  // namespace

absl::Status Flatten(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  const int64_t axis = node.Int("axis", 1);
  const int64_t rank = x.is_flat ? 2 : 4;
  if (axis != 1 && axis != 1 - rank)
    return absl::UnimplementedError(absl::StrCat("attribute 'axis' is ", axis, "; 1 is needed"));
  return SetFlat(node, network, std::move(x), true);
}

absl::Status Reshape(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> target, Target(node, network, x));
  ImageValue flat = x;
  flat.is_flat = true;
  ImageValue image = x;
  image.is_flat = false;
  if (target == flat.dims()) return SetFlat(node, network, std::move(x), true);
  if (target == image.dims()) return SetFlat(node, network, std::move(x), false);
  return absl::UnimplementedError(absl::StrCat("it makes ", absl::StrJoin(target, "x"), " of ",
                                               absl::StrJoin(x.dims(), "x"),
                                               "; only one vector can be made of each image"));
}

absl::Status Squeeze(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.IntsOrInput("axes", 1));
  if (x.is_flat || Normalised(axes, 4) != kHeightAndWidth || !HasOnePixel(x))
    return absl::UnimplementedError("it removes other axes than height and width of 1x1 images");
  return SetFlat(node, network, std::move(x), true);
}

absl::Status Unsqueeze(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.IntsOrInput("axes", 1));
  if (!x.is_flat || Normalised(axes, 4) != kHeightAndWidth || !HasOnePixel(x))
    return absl::UnimplementedError("it adds other axes than height and width to vectors");
  return SetFlat(node, network, std::move(x), false);
}

absl::Status ReduceMean(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.IntsOrInput("axes", 1));
  node.Int("noop_with_empty_axes", 0);  // without axes it is refused either way
  if (x.is_flat || Normalised(axes, 4) != kHeightAndWidth)
    return absl::UnimplementedError("it reduces other axes than height and width");
  const bool is_flat = node.Int("keepdims", 1) == 0;
  return network.AddLayer(node.proto(), neap::GlobalAveragePool{}, {std::move(x)}, {}, is_flat);
}

absl::Status Slice(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  std::vector<std::vector<int64_t>> lists;
  for (int i = 1; i <= 4; ++i) {
    if (i == 4 && !node.HasInput(i)) continue;
    ASSIGN_OR_RETURN(const Constant list, node.Constant(i));
    lists.push_back(ToIntegers(list));
  }
  const size_t count = lists[0].size();
  const bool by_ones = lists.size() < 4 || lists[3] == std::vector<int64_t>(count, 1);
  if (x.is_flat || !by_ones || lists[1].size() != count || lists[2].size() != count)
    return absl::UnimplementedError("it takes other elements than a rectangle of each image");
  Crop crop = {.size = {x.spec.shape.h(), x.spec.shape.w()}};
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = lists[2][i] < 0 ? lists[2][i] + 4 : lists[2][i];
    if (axis != 2 && axis != 3)
      return absl::UnimplementedError("it takes a part of another axis than height and width");
    const int64_t extent = x.spec.shape[static_cast<int>(axis)];
    const auto [first, last] = ClampedRange(lists[0][i], lists[1][i], extent);
    (axis == 2 ? crop.offset.h : crop.offset.w) = first;
    (axis == 2 ? crop.size.h : crop.size.w) = last - first;
  }
  return network.AddLayer(node.proto(), crop, {std::move(x)});
}

absl::Status Same(NodeReader& node, NetworkBuilder& network) {
  const ImageValue* const x = node.IfImage(0);
  if (x == nullptr) return absl::InvalidArgumentError("it has no input");
  if (node.op() == "Cast" && IsInteger(node.Int("to", 0)))
    return absl::UnimplementedError("it makes integers of a layer's output");
  network.Set(node.proto().output(0), ImageValue(*x));
  return absl::OkStatus();
}

absl::Status Shape(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
  network.Set(node.proto().output(0), ShapeOf(node, x.dims()));
  return absl::OkStatus();
}

}  // namespace neap::nets::operators
