#include "neap/nets/onnx/axes/mirrored_pad.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/join.h"
#include "neap/nets/onnx/axes/rearrange.h"

namespace neap::nets {
namespace {

constexpr int64_t kMaxEntries = 64;  // each is a layer

absl::Status OtherPads() {
  return absl::UnimplementedError("it pads with other values than 0, or than those at the edge");
}

// The entry of x that is at this place, which may lie before or behind x.
int64_t EntryAt(int64_t place, int64_t extent, bool reflects) {
  if (!reflects) return std::clamp<int64_t>(place, 0, extent - 1);
  return place < 0 ? -place : place < extent ? place : 2 * (extent - 1) - place;
}

// x with so many entries more before and behind an axis.
absl::StatusOr<ImageValue> Padded(const onnx_schema::Node& node, NetworkBuilder& network,
                                  const ImageValue& given, size_t axis, int64_t before,
                                  int64_t after, bool reflects) {
  ASSIGN_OR_RETURN(const ImageValue x, WithChannels(node, network, given, axis));
  const ImageValue plain = Plain(x);
  const int64_t extent = x.spec.shape.c();
  std::vector<ImageValue> parts;
  for (int64_t place = -before; place < extent + after; ++place) {
    if (place == 0) {
      parts.push_back(plain);
      place = extent - 1;
      continue;
    }
    const ChannelSlice entry = {.first = EntryAt(place, extent, reflects), .count = 1};
    ASSIGN_OR_RETURN(parts.emplace_back(), network.AddExtra(node, {}, "_entry", entry, {plain}));
  }
  ASSIGN_OR_RETURN(ImageValue joined, network.AddExtra(node, {}, "", Concat{}, parts));
  joined.arrangement = x.arrangement.WithExtent(axis, 1, extent + before + after);
  return joined;
}

}  // namespace

absl::Status AddMirroredPad(NodeReader& node, NetworkBuilder& network, const std::string& mode,
                            ImageValue x) {
  const bool reflects = mode == "reflect";
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, node.IntsOrInput("pads", 1));
  const size_t rank = x.rank();
  if ((!reflects && mode != "edge") || node.HasInput(3) || pads.size() != 2 * rank)
    return OtherPads();
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t before = pads[axis], after = pads[axis + rank];
    if (before == 0 && after == 0) continue;
    const int64_t most = reflects ? std::min(kMaxEntries, x.dims()[axis] - 1) : kMaxEntries;
    if (x.arrangement.HasImages(axis) || before < 0 || after < 0 || before > most || after > most)
      return OtherPads();
    ASSIGN_OR_RETURN(x, Padded(node.proto(), network, x, axis, before, after, reflects));
  }
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

}  // namespace neap::nets
