#include "neap/nets/onnx/axes/rearrange.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/nets/onnx/axes/pixel_blocks.h"
#include "neap/nets/onnx/constants/constant_arrays.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;

constexpr size_t kMaxAxes = 1 + kMaxSpatialAxes;  // of a layer, without N

absl::Status NoLayers(const ImageValue& x) {
  return absl::UnimplementedError(absl::StrCat("its input is ", absl::StrJoin(x.dims(), "x"),
                                               " with the axes ", x.arrangement.ToString(),
                                               ", which neap's layers do not make of {N, C, ...}"));
}

Factors WithoutImages(Factors factors) {
  std::erase_if(factors, [](const Factor& factor) { return factor.axis == 0; });
  return factors;
}

// All axes but N and this one, joined.
Factors Others(const Arrangement& arrangement, size_t axis) {
  Factors others;
  for (size_t i = 0; i < arrangement.rank(); ++i) {
    const Factors factors = WithoutImages(arrangement.axes()[i]);
    if (i != axis) others.insert(others.end(), factors.begin(), factors.end());
  }
  return others;
}

// The shuffle of channels or pixels that makes these axes; absent if there is none.
std::optional<Layer> ShuffleOf(const ImageValue& x, const std::vector<Factors>& wanted) {
  const Arrangement images = Arrangement::OfLayer(x.arrangement.layer());
  if (std::ssize(wanted) + 1 != x.spec.shape.rank()) return std::nullopt;
  std::vector<Factors> axes = {images.axes()[0]};
  for (const Factors& axis : wanted) axes.push_back(axis);
  const Arrangement target(images.layer(), axes);
  if (target.axes()[1].size() == 2 && target.axes()[1][1].axis == 1) {
    const Factors channels = target.axes()[1];
    std::vector<Factors> shuffled = images.axes();
    shuffled[1] = {{1, channels[0].extent, 1}, {1, channels[1].extent, channels[0].extent}};
    if (target == Arrangement(images.layer(), shuffled))
      return ChannelShuffle{.groups = channels[1].extent};
  }
  return PixelShuffleOf(target);
}

bool IsBefore(const Factor& a, const Factor& b) {
  return a.axis != b.axis ? a.axis < b.axis : a.stride > b.stride;
}

// What may come before a permutation that has too many axes by itself: the channels stay first, and
// all else is in the wanted order; or what is wanted first comes first, as the channels of the
// windows of an image whose channels are last, and all else stays in the order of the layer; or
// what is wanted first comes last, as the channels of four positions that become one.
std::vector<std::vector<Factors>> FirstSteps(const std::vector<Factors>& wanted) {
  std::vector<Factors> channels_first(2), wanted_first = {wanted[0], {}};
  std::vector<Factors> wanted_last = {{}, wanted[0]};
  for (size_t i = 0; i < wanted.size(); ++i) {
    for (const Factor& factor : wanted[i]) {
      channels_first[factor.axis == 1 ? 0 : 1].push_back(factor);
      if (i == 0) continue;
      wanted_first[1].push_back(factor);
      wanted_last[0].push_back(factor);
    }
  }
  std::sort(channels_first[0].begin(), channels_first[0].end(), IsBefore);
  std::sort(wanted_first[1].begin(), wanted_first[1].end(), IsBefore);
  return {channels_first, wanted_first, wanted_last};
}

// All that a permutation of up to kMaxAxes runs of the layer's factors makes.
std::vector<std::vector<Factors>> AllSteps(const std::vector<Factors>& wanted) {
  Factors factors;
  for (const Factors& axis : wanted) factors.insert(factors.end(), axis.begin(), axis.end());
  std::sort(factors.begin(), factors.end(), IsBefore);
  constexpr size_t kMaxFactors = 8;
  std::vector<std::vector<Factors>> steps;
  if (factors.size() > kMaxFactors || factors.size() < 2) return steps;
  const size_t places = factors.size() - 1;  // where a run may end
  for (size_t ends = 1; ends < size_t{1} << places; ++ends) {
    std::vector<Factors> runs(1);
    for (size_t i = 0; i <= places; ++i) {
      runs.back().push_back(factors[i]);
      if (i < places && (ends >> i & 1) != 0) runs.emplace_back();
    }
    if (runs.size() > kMaxAxes) continue;
    std::vector<size_t> order(runs.size());
    std::iota(order.begin(), order.end(), 0);
    while (std::next_permutation(order.begin(), order.end())) {
      std::vector<Factors> step = {runs[order[0]], {}};
      for (size_t i = 1; i < order.size(); ++i)
        step[1].insert(step[1].end(), runs[order[i]].begin(), runs[order[i]].end());
      steps.push_back(std::move(step));
    }
  }
  return steps;
}

// Where one permutation has too many axes, another one comes before it.
absl::StatusOr<ImageValue> InTwoSteps(const Node& node, NetworkBuilder& network,
                                      const ImageValue& x, const std::vector<Factors>& wanted) {
  std::vector<std::vector<Factors>> steps = FirstSteps(wanted);
  for (std::vector<Factors>& step : AllSteps(wanted)) steps.push_back(std::move(step));
  for (const std::vector<Factors>& first : steps) {
    const std::optional<Rearrangement> parts = Rearrange(x.arrangement, first, kMaxAxes);
    if (!parts.has_value() || parts->IsNothing()) continue;
    std::vector<int64_t> layer = parts->arrangement.layer();
    const std::vector<Factors> then =
        Renamed(Arrangement(x.arrangement.layer(), wanted), first, std::move(layer)).axes();
    if (!Rearrange(parts->arrangement, then, kMaxAxes).has_value()) continue;
    ASSIGN_OR_RETURN(const ImageValue moved, WithAxes(node, network, x, first));
    return WithAxes(node, network, moved, then);
  }
  return NoLayers(x);
}

std::string NameSuffix(const ImageValue& x, const char* suffix) {
  return x.transpose == nullptr ? suffix : "";
}

bool AreAll(const std::vector<ImageValue>& images, bool (ImageValue::*has_form)() const) {
  return std::all_of(images.begin(), images.end(),
                     [&](const ImageValue& image) { return (image.*has_form)(); });
}

// Whether both have the same axes, but for those along which the values of one are spread, and N in
// the same place unless it is 1.
bool Fit(const ImageValue& a, const ImageValue& b) {
  if (a.rank() != b.rank() || !BroadcastDims(a.dims(), b.dims()).has_value()) return false;
  const bool is_one = a.arrangement.layer()[0] == 1;
  for (size_t i = 0; !is_one && i < a.rank(); ++i) {
    if (a.arrangement.HasImages(i) != b.arrangement.HasImages(i)) return false;
  }
  return true;
}

// Whether one of the values, all of which fit each other, has the extents to which they are spread.
bool OneHasAllExtents(const std::vector<ImageValue>& images) {
  Dims all = images[0].dims();
  for (const ImageValue& image : images) all = BroadcastDims(all, image.dims()).value_or(all);
  return std::any_of(images.begin(), images.end(),
                     [&](const ImageValue& image) { return image.dims() == all; });
}

}  // namespace

ImageValue Plain(const ImageValue& x) {
  return {.layer = x.layer,
          .spec = x.spec,
          .arrangement = Arrangement::OfLayer(x.arrangement.layer()),
          .is_guess = x.is_guess};
}

absl::StatusOr<ImageValue> WithAxes(const Node& node, NetworkBuilder& network, const ImageValue& x,
                                    const std::vector<Factors>& wanted) {
  const std::optional<Rearrangement> parts = Rearrange(x.arrangement, wanted, kMaxAxes);
  if (wanted.size() > kMaxAxes) return NoLayers(x);
  if (parts.has_value() && parts->IsNothing()) {
    ImageValue same = x;
    same.arrangement = parts->arrangement;
    return same;
  }
  const Node& named = x.transpose == nullptr ? node : *x.transpose;
  ImageValue made = Plain(x);
  const auto add = [&](const char* suffix, const Layer& layer) -> absl::Status {
    ASSIGN_OR_RETURN(made, network.AddExtra(named, {}, suffix, layer, {made}));
    return absl::OkStatus();
  };
  if (const std::optional<Layer> shuffle = ShuffleOf(x, wanted)) {
    RETURN_IF_ERROR(add(NameSuffix(x, "_shuffled").c_str(), *shuffle));
    std::vector<int64_t> layer(made.spec.shape.dims().begin(), made.spec.shape.dims().end());
    layer[0] = network.graph_batch();
    made.arrangement = Renamed(x.arrangement, wanted, std::move(layer));
    return made;
  }
  if (!parts.has_value()) return InTwoSteps(node, network, x, wanted);
  if (!parts->divided.empty()) RETURN_IF_ERROR(add("_divided", Reshape{parts->divided}));
  if (!parts->order.empty())
    RETURN_IF_ERROR(add(NameSuffix(x, "_permuted").c_str(), Permute{parts->order}));
  if (!parts->layer.empty()) RETURN_IF_ERROR(add("_axes", Reshape{parts->layer}));
  made.arrangement = parts->arrangement;
  return made;
}

absl::StatusOr<ImageValue> AsImage(const Node& node, NetworkBuilder& network, const ImageValue& x) {
  if (x.is_image()) return x;
  const std::vector<Factors>& axes = x.arrangement.axes();
  if (axes.size() < 3 || axes.size() > 1 + kMaxAxes || !x.arrangement.IsImages(0))
    return NoLayers(x);
  return WithAxes(node, network, x, {axes.begin() + 1, axes.end()});
}

absl::StatusOr<ImageValue> WithChannels(const Node& node, NetworkBuilder& network,
                                        const ImageValue& x, size_t axis) {
  return WithAxes(node, network, x,
                  {WithoutImages(x.arrangement.axes()[axis]), Others(x.arrangement, axis)});
}

absl::StatusOr<ImageValue> InOrder(const Node& node, NetworkBuilder& network, const ImageValue& x) {
  const std::vector<Factors>& axes = x.arrangement.axes();
  if (x.arrangement.IsInOrder()) return x;
  if (!x.arrangement.IsImages(0)) return NoLayers(x);
  if (axes.size() >= 3 && axes.size() <= 1 + kMaxAxes) return AsImage(node, network, x);
  return WithAxes(node, network, x, {axes[1], Others(x.arrangement, 1)});
}

absl::StatusOr<std::vector<ImageValue>> WithSameAxes(const Node& node, NetworkBuilder& network,
                                                     std::vector<ImageValue> images) {
  const ImageValue& first = images[0];
  const auto has_same_rank = [&](const ImageValue& image) { return image.rank() == first.rank(); };
  const bool have_same_rank = std::all_of(images.begin(), images.end(), has_same_rank);
  if (have_same_rank &&
      (AreAll(images, &ImageValue::is_image) || AreAll(images, &ImageValue::is_flat) ||
       AreAll(images, &ImageValue::is_channels_last)))
    return images;
  const auto is_same = [&](const ImageValue& image) {
    return image.arrangement == first.arrangement;
  };
  if (std::all_of(images.begin(), images.end(), is_same)) return images;
  const size_t axis = first.channel_axis().value_or(first.rank() - 1);
  for (size_t i = 1; i < images.size(); ++i) {
    if (Fit(images[i], first)) continue;
    return absl::UnimplementedError(absl::StrCat("its input ", i, " ('",
                                                 node.input(static_cast<int>(i)),
                                                 "') has other axes than the first input"));
  }
  if (!OneHasAllExtents(images)) {
    return absl::UnimplementedError(
        "each of its inputs is repeated along an axis that another one has");
  }
  for (ImageValue& image : images) {
    ASSIGN_OR_RETURN(image, WithChannels(node, network, image, axis));
  }
  return images;
}

absl::StatusOr<Arrangement> ArrangementBehind(const ImageValue& x, const NetworkBuilder& network,
                                              const Shape& output) {
  const Arrangement& from = x.arrangement;
  const Arrangement images = network.ArrangementOf(output, Form::kImage);
  if (from.layer() == images.layer()) return from;
  if (from.IsFlat()) return network.ArrangementOf(output, Form::kFlat);
  if (from.IsOfLayer()) return images;
  if (from.IsChannelsLast()) return network.ArrangementOf(output, Form::kChannelsLast);
  const std::optional<size_t> channels = x.channel_axis();
  if (channels.has_value()) {
    const Arrangement same = from.WithExtent(*channels, 1, output.c());
    if (same.layer() == images.layer()) return same;
  }
  return absl::UnimplementedError(absl::StrCat("its input has the axes ", from.ToString()));
}

Constant InLayersOrder(const Constant& constant, const Arrangement& arrangement) {
  struct Placed {
    Factor factor;
    int64_t stride;  // in the constant
  };
  std::vector<Placed> placed;
  int64_t stride = 1;
  for (size_t i = arrangement.rank(); i-- > 1;) {
    const Factors& axis = arrangement.axes()[i];
    for (size_t k = axis.size(); k-- > 0;) {
      placed.push_back({axis[k], stride});
      stride *= axis[k].extent;
    }
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return a.factor.axis != b.factor.axis ? a.factor.axis < b.factor.axis
                                          : a.factor.stride > b.factor.stride;
  });
  Dims dims, strides;
  for (const Placed& part : placed) {
    dims.push_back(part.factor.extent);
    strides.push_back(part.stride);
  }
  Constant ordered = View(constant, std::move(dims), strides);
  ordered.dims.assign(arrangement.layer().begin() + 1, arrangement.layer().end());
  return ordered;
}

}  // namespace neap::nets
