#include "neap/core/graph/sizes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/source.h"
#include "neap/core/graph/with_options.h"

namespace neap {
namespace {

// {height, width} of images {N, C, H, W}, and of labels of their pixels {N, H, W}.
std::vector<int64_t> ExtentsOf(const Feed& feed) {
  const Shape& shape = feed.tensor.shape;
  const bool has_channels = feed.tensor.dtype != DType::kInt32;
  if (has_channels || shape.rank() == 0) return {shape.spatial().begin(), shape.spatial().end()};
  return {shape.dims().begin() + 1, shape.dims().end()};
}

absl::Status CheckSize(const GraphSize& size, const std::vector<int64_t>& extents,
                       const Graph& net) {
  const bool fits = size.extents.size() == extents.size() && size.batch >= 0 &&
                    std::all_of(size.extents.begin(), size.extents.end(),
                                [](int64_t extent) { return extent > 0; });
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      net.options().name, ": a size has ", extents.size(), " positive extents, as its first feed (",
      absl::StrJoin(extents, "x"), "), and a batch that is not negative; this one is ",
      absl::StrJoin(size.extents, "x"), " with a batch of ", size.batch));
}

const Feed* FirstFeed(const Graph& net) {
  for (const GraphLayer& layer : net.layers()) {
    if (const auto* const feed = layer.layer.As<Feed>()) return feed;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<Graph> WithSize(const Graph& net, const GraphSize& size) {
  const Feed* const first = FirstFeed(net);
  if (first == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(net.options().name, " has no feed"));
  const std::vector<int64_t> extents = ExtentsOf(*first);
  RETURN_IF_ERROR(CheckSize(size, extents, net));
  Graph sized(net.options(), net);
  sized.Sizes({});
  for (GraphLayer layer : net.layers()) {
    const auto* const given = layer.layer.As<Feed>();
    if (given != nullptr && ExtentsOf(*given) == extents) {
      Feed feed = *given;
      auto dims = feed.tensor.shape.dims();
      std::copy(size.extents.begin(), size.extents.end(), dims.end() - std::ssize(extents));
      feed.tensor.shape = Shape(std::move(dims));
      layer.layer = std::move(feed);
    }
    sized.Add(std::move(layer));
  }
  GraphOptions options = net.options();
  if (size.batch > 0) options.batch = size.batch;
  return WithOptions(sized, options);
}

}  // namespace neap
