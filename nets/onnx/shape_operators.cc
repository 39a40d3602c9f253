// Operators that give the elements of images other axes, or take some of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/crop.h"
#include "neap/layers/pooling.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/nets/onnx/node_axes.h"
#include "neap/nets/onnx/norms/norm_operators.h"
#include "neap/nets/onnx/operators.h"
#include "neap/nets/onnx/pixel_blocks.h"

namespace neap::nets::operators {
namespace {

bool HasOnePixel(const ImageValue& x) { return x.spec.shape.positions() == 1; }

// Images whose axes the node changes, in any order of them.
absl::StatusOr<ImageValue> AnyImage(NodeReader& node) {
  const ImageValue* const x = node.IfImage(0);
  if (x == nullptr || x->formula.has_value()) return node.Image(0);  // the error
  ImageValue image = *x;
  image.padding = {};
  image.unpadded.clear();
  return image;
}

// How images may be stated: {N, C, H, W}, {N, C*H*W}, {N, H, W, C}, or with their channels and
// positions as {N, groups, C / groups * H * W}, or in blocks of pixels. An axis of 1 behind the
// last tells groups of one channel from a sequence.
enum class Form : uint8_t { kImage, kFlat, kChannelsLast, kJoined, kBlocks };

// The number of groups if these are the extents of x, an image in this form, with its channels in
// groups.
int64_t GroupsOf(const ImageValue& x, const std::vector<int64_t>& dims, Form form) {
  const int64_t axes = form == Form::kJoined ? 3 : x.spec.shape.rank() + 1;
  if (std::ssize(dims) != axes) return 0;
  return dims[form == Form::kChannelsLast ? dims.size() - 2 : 1];
}

// Whether x has these extents in this form, which it then gets.
bool TakesForm(Form form, std::vector<int64_t> dims, ImageValue& x) {
  if (form == Form::kBlocks) {
    if (x.is_channels_last || !AreBlocks(x.spec.shape, dims)) return false;
    x = {.layer = x.layer, .spec = x.spec, .blocks = std::move(dims), .is_guess = x.is_guess};
    return true;
  }
  if (form == Form::kJoined && dims.size() == 4 && dims[3] == 1) dims.pop_back();
  const int64_t groups = GroupsOf(x, dims, form);
  if (groups < 0 || (groups > 0 && x.spec.shape.c() % groups != 0)) return false;
  ImageValue taken = x;
  taken.is_flat = form == Form::kFlat;
  taken.is_channels_last = form == Form::kChannelsLast;
  taken.joins_positions = form == Form::kJoined && groups > 0;
  taken.groups = groups;
  taken.blocks = {};
  // With more than one pixel, the elements have another order if the channels move.
  const bool moves = taken.is_channels_last != x.is_channels_last && !HasOnePixel(x);
  if (moves || dims != taken.dims()) return false;
  x = std::move(taken);
  return true;
}

// The images with the axes that they have in the graph: by a Permute if their channels are the last
// axis, and by a Reshape if some axes are joined or divided.
absl::StatusOr<ImageValue> AsStated(NodeReader& node, NetworkBuilder& network, ImageValue x) {
  const std::vector<int64_t> dims = x.dims();
  const bool is_divided = x.groups != 0 || !x.blocks.empty();
  if (dims.size() < 3 || std::ssize(dims) > 2 + kMaxSpatialAxes)
    return absl::UnimplementedError(absl::StrCat("its input is ", absl::StrJoin(dims, "x")));
  const bool is_channels_last = x.is_channels_last;
  x = {.layer = x.layer, .spec = x.spec, .is_guess = x.is_guess};
  if (is_channels_last) {
    std::vector<int64_t> axes = ChannelOrder(x.spec.shape.rank(), /*to_last=*/true);
    axes.erase(axes.begin());
    ASSIGN_OR_RETURN(x, network.AddExtra(node.proto(), {}, "_channels_last", Permute{axes}, x));
  }
  if (!is_divided) return x;
  return network.AddExtra(node.proto(), {}, "_axes", Reshape{{dims.begin() + 1, dims.end()}}, x);
}

// The layer that gives x these extents.
absl::Status AddReshape(NodeReader& node, NetworkBuilder& network, ImageValue x,
                        const std::vector<int64_t>& dims) {
  const bool fits =
      dims.size() >= 3 && std::ssize(dims) <= 2 + kMaxSpatialAxes && dims[0] == x.spec.shape.n();
  if (!fits) {
    return absl::UnimplementedError(absl::StrCat("it makes ", absl::StrJoin(dims, "x"), " of ",
                                                 absl::StrJoin(x.dims(), "x"),
                                                 "; only one vector can be made of each image, or "
                                                 "another image"));
  }
  // A vector of several pixels has their order.
  if (x.is_channels_last && !HasOnePixel(x)) {
    ASSIGN_OR_RETURN(x, AsStated(node, network, std::move(x)));
  }
  x = {.layer = x.layer, .spec = x.spec, .is_guess = x.is_guess};
  return network.AddLayer(node.proto(), Reshape{{dims.begin() + 1, dims.end()}}, {std::move(x)});
}

// The output is the same elements with these extents: as images, perhaps with groups of channels,
// or as vectors; or a layer gives them these.
absl::Status SetDims(NodeReader& node, NetworkBuilder& network, ImageValue x,
                     const std::vector<int64_t>& dims) {
  const std::vector<int64_t> before = x.dims();
  bool is_taken = dims == before && !x.joins_positions;
  for (const Form form :
       {Form::kFlat, Form::kImage, Form::kJoined, Form::kChannelsLast, Form::kBlocks})
    is_taken = is_taken || TakesForm(form, dims, x);
  if (!is_taken) return AddReshape(node, network, std::move(x), dims);
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

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

// Whether the node is a layer that neap wrote: its other reshapes keep the images by 0.
absl::StatusOr<bool> IsWrittenReshape(NodeReader& node, const NetworkBuilder& network) {
  if (!network.written_by_neap() || node.op() != "Reshape") return false;
  ASSIGN_OR_RETURN(const Constant target, node.Constant(1));
  return !target.values.empty() && target.values[0] == -1;
}

// Whether the Transpose is a layer that neap wrote. Those of layer norms have names of their own,
// and the others read or make groups or blocks.
bool IsWrittenPermute(const NodeReader& node, const NetworkBuilder& network, const ImageValue& x) {
  const bool is_plain = x.groups == 0 && x.blocks.empty() && !x.is_channels_last;
  return network.written_by_neap() && is_plain &&
         !absl::EndsWith(node.proto().name(), ".channels_last");
}

absl::Status AddPermute(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                        const std::vector<int64_t>& order) {
  if (order[0] != 0) return absl::UnimplementedError("it moves the axis of the images");
  const Permute layer = {.axes = {order.begin() + 1, order.end()}};
  return network.AddLayer(node.proto(), layer, {x});
}

// Positions [first, last) along the axes of {N, C, H, W}.
struct Part {
  std::vector<int64_t> first, last;
};

Part Whole(const ImageValue& x) {
  const neap::Shape::Dims& dims = x.spec.shape.dims();
  return {.first = std::vector<int64_t>(dims.size(), 0), .last = {dims.begin(), dims.end()}};
}

// x becomes the part, by layers with the node's name and this suffix.
absl::Status TakePart(NodeReader& node, NetworkBuilder& network, ImageValue& x, const Part& part,
                      const std::string& suffix) {
  const neap::Shape& shape = x.spec.shape;
  const auto count = [&](size_t axis) { return part.last[axis] - part.first[axis]; };
  const auto is_whole = [&](size_t axis) { return count(axis) == shape.dims()[axis]; };
  if (!is_whole(0)) return absl::UnimplementedError("it takes some of the images");
  const bool takes_channels = !is_whole(1);
  if (takes_channels) {
    const ChannelSlice slice = {.first = part.first[1], .count = count(1)};
    ASSIGN_OR_RETURN(x, network.AddExtra(node.proto(), {}, suffix, slice, x));
  }
  const bool is_kept = network.written_by_neap() && !takes_channels;  // the Crop that neap wrote
  std::vector<int64_t> size;
  for (size_t axis = 2; axis < part.first.size(); ++axis) size.push_back(count(axis));
  if (absl::MakeConstSpan(size) == shape.spatial() && !is_kept) return absl::OkStatus();
  const Crop crop = {.size = Extents::Of(size),
                     .offset = Extents::Of(absl::MakeConstSpan(part.first).subspan(2))};
  ASSIGN_OR_RETURN(x, network.AddExtra(node.proto(), {}, suffix, crop, x));
  return absl::OkStatus();
}

absl::Status CheckHasAxes(const ImageValue& x) {
  if (!x.is_flat || HasOnePixel(x)) return absl::OkStatus();
  return absl::UnimplementedError("it takes a part of an image that is made flat");
}

// The groups and the channels in them change places.
bool SwapsGroups(const ImageValue& x, const std::vector<int64_t>& order) {
  if (x.groups == 0 || x.joins_positions) return false;
  std::vector<int64_t> wanted(x.dims().size());
  std::iota(wanted.begin(), wanted.end(), 0);
  const size_t groups = x.is_channels_last ? wanted.size() - 2 : 1;
  std::swap(wanted[groups], wanted[groups + 1]);
  return order == wanted;
}
absl::Status ShuffleChannels(NodeReader& node, NetworkBuilder& network, const ImageValue& x) {
  RETURN_IF_ERROR(network.AddLayer(node.proto(), ChannelShuffle{.groups = x.groups}, {x}));
  ImageValue shuffled = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  shuffled.groups = x.spec.shape.c() / x.groups;
  network.Set(node.proto().output(0), std::move(shuffled));
  return absl::OkStatus();
}

// What the Transpose makes of blocks of pixels is the output of a layer, in other blocks.
absl::Status ShufflePixels(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                           const Layer& shuffle, const std::vector<int64_t>& order) {
  RETURN_IF_ERROR(network.AddLayer(node.proto(), shuffle, {x}));
  ImageValue shuffled = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  const std::vector<int64_t> dims = x.dims();
  for (const int64_t axis : order) shuffled.blocks.push_back(dims[static_cast<size_t>(axis)]);
  network.Set(node.proto().output(0), std::move(shuffled));
  return absl::OkStatus();
}

// Whether a reduction to a mean has all spatial axes.
absl::StatusOr<bool> ReducesSpatialAxes(NodeReader& node, const ImageValue& x) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.IntsOrInput("axes", 1));
  if (x.is_flat || x.groups != 0 || !x.blocks.empty()) return false;
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, CheckedAxes(given, x.spec.shape.rank()));
  std::vector<int64_t> spatial(x.spec.shape.spatial().size());
  std::iota(spatial.begin(), spatial.end(), x.is_channels_last ? 1 : 2);
  return axes == spatial;
}

}  // namespace

absl::Status ChangeAxes(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, AnyImage(node));
  ASSIGN_OR_RETURN(const bool is_layer, IsWrittenReshape(node, network));
  if (is_layer) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> target, Target(node, network, x));
    return AddReshape(node, network, std::move(x), target);
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> dims,
                   node.op() == "Reshape" ? Target(node, network, x) : AxesAfter(node, x.dims()));
  return SetDims(node, network, std::move(x), dims);
}

absl::Status Transpose(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, AnyImage(node));
  ASSIGN_OR_RETURN(const std::vector<int64_t> order, ReadOrder(node, std::ssize(x.dims())));
  if (SwapsGroups(x, order)) return ShuffleChannels(node, network, x);
  const auto shuffle = x.is_channels_last
                           ? std::nullopt
                           : ShuffleOf(x.spec.shape, {.dims = x.dims(), .order = order});
  if (shuffle.has_value()) return ShufflePixels(node, network, x, *shuffle, order);
  if (IsWrittenPermute(node, network, x)) return AddPermute(node, network, x, order);
  if (!std::is_sorted(order.begin(), order.end())) {
    if (x.groups != 0 || !x.blocks.empty()) {
      ASSIGN_OR_RETURN(x, AsStated(node, network, std::move(x)));
    }
    if (order != ChannelOrder(x.spec.shape.rank(), !x.is_channels_last)) {
      ASSIGN_OR_RETURN(x, AsStated(node, network, std::move(x)));
      return AddPermute(node, network, x, order);
    }
    x.is_channels_last = !x.is_channels_last;
  }
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

absl::Status ReduceMean(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, AnyImage(node));
  ASSIGN_OR_RETURN(const bool begins_norm, IsChannelMean(node, x));
  if (begins_norm) {
    network.Set(node.proto().output(0), NormPart{.x = std::move(x)});
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const bool pools, ReducesSpatialAxes(node, x));
  node.Int("noop_with_empty_axes", 0);  // without axes it is refused either way
  if (!pools) return absl::UnimplementedError("it reduces other axes than the spatial ones");
  const bool is_flat = node.Int("keepdims", 1) == 0;
  return network.AddLayer(node.proto(), neap::GlobalAveragePool{}, {std::move(x)}, {}, is_flat);
}

absl::Status Slice(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(ImageValue x, node.Image(0));
  RETURN_IF_ERROR(CheckHasAxes(x));
  ASSIGN_OR_RETURN(const Slices slices, ReadSlices(node, std::ssize(x.dims())));
  Part part = Whole(x);
  for (size_t i = 0; i < slices.axes.size(); ++i) {
    if (slices.steps[i] != 1)
      return absl::UnimplementedError(absl::StrCat("it has a step of ", slices.steps[i]));
    const auto axis = static_cast<size_t>(slices.axes[i]);
    std::tie(part.first[axis], part.last[axis]) =
        ClampedRange(slices.starts[i], slices.ends[i], x.dims()[axis]);
  }
  RETURN_IF_ERROR(TakePart(node, network, x, part, ""));
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

absl::Status SplitChannels(NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                           const std::vector<int64_t>& channels) {
  RETURN_IF_ERROR(network.AddLayer(node.proto(), ChannelSplit{.channels = channels}, {x}));
  const ImageValue first = std::get<ImageValue>(*network.Find(node.proto().output(0)));
  for (int i = 1; i < std::ssize(channels); ++i)
    network.Set(node.proto().output(i), network.FurtherOutput(first, i));
  return absl::OkStatus();
}

absl::Status Split(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.Image(0));
  RETURN_IF_ERROR(CheckHasAxes(x));
  const std::vector<int64_t> dims = x.dims();
  ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(node.Int("axis", 0), std::ssize(dims)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> extents, ReadParts(node, dims[axis]));
  const auto is_read = [&](const std::string& output) { return network.ReaderCount(output) > 0; };
  const auto& outputs = node.proto().output();
  if (axis == 1 && std::count_if(outputs.begin(), outputs.end(), is_read) > 1)
    return SplitChannels(node, network, x, extents);
  Part part = Whole(x);
  part.last[axis] = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    part.first[axis] = part.last[axis];
    part.last[axis] += extents[i];
    ImageValue taken = x;
    RETURN_IF_ERROR(TakePart(node, network, taken, part, absl::StrCat("_", i)));
    network.Set(node.proto().output(static_cast<int>(i)), std::move(taken));
  }
  return absl::OkStatus();
}

absl::Status Same(NodeReader& node, NetworkBuilder& network) {
  if (const IdsValue* const ids = node.IfIds(0)) {
    if (node.op() == "Cast" && !IsInteger(node.Int("to", 0))) return node.Image(0).status();
    network.Set(node.proto().output(0), IdsValue(*ids));
    return absl::OkStatus();
  }
  const ImageValue* const x = node.IfImage(0);
  if (x == nullptr) return node.Image(0).status();
  if (node.op() == "Cast" && IsInteger(node.Int("to", 0)))
    return absl::UnimplementedError("it makes integers of a layer's output");
  network.Set(node.proto().output(0), ImageValue(*x));
  return absl::OkStatus();
}

absl::Status Shape(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, AnyImage(node));
  if (x.is_guess) {
    network.Set(node.proto().output(0), Unsupported{});
    return absl::OkStatus();
  }
  network.Set(node.proto().output(0), ShapeOf(node, x.dims()));
  return absl::OkStatus();
}

}  // namespace neap::nets::operators
