#include "neap/nets/onnx/tokens/constant_query.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/crop.h"
#include "neap/layers/tokens/prepend_token.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/tokens/head_axes.h"

namespace neap::nets {
namespace {

absl::Status NoQuery(const Constant& constant, const ImageValue& key) {
  return absl::UnimplementedError(absl::StrCat(
      "its constant is ", absl::StrJoin(constant.dims, "x"), ", which is no query {1, heads, ",
      "positions, dimensions} of the keys ", absl::StrJoin(key.dims(), "x")));
}

}  // namespace

absl::StatusOr<ImageValue> ConstantQuery(const onnx_schema::Node& node, NetworkBuilder& network,
                                         const Constant& constant, const ImageValue& key) {
  const std::vector<int64_t>& q = constant.dims;
  const std::vector<int64_t> k = key.dims();
  constexpr int64_t kMaxQueries = 64;  // each is a layer
  const bool fits = q.size() == 4 && k.size() == 4 && q[0] == 1 && q[1] == k[1] && q[3] == k[3] &&
                    q[2] >= 1 && q[2] <= kMaxQueries && HeadAxesOf(key).has_value();
  if (!fits) return NoQuery(constant, key);
  const int64_t heads = q[1], queries = q[2], dims = q[3];
  const HeadAxes axes = *HeadAxesOf(key);
  ASSIGN_OR_RETURN(ImageValue x, WithAxes(node, network, key, {axes.channels(), axes.positions}));
  x = Plain(x);
  for (int64_t i = queries; i-- > 0;) {
    Weight weight = {.name = "weight",
                     .tensor = View(constant, {heads, dims}, {queries * dims, 1}, i * dims)};
    std::get<Constant>(weight.tensor).dims = {1, heads * dims, 1};
    RETURN_IF_ERROR(network.AddLayer(node, PrependToken{}, {x}, {std::move(weight)}, Form::kImage));
    x = std::get<ImageValue>(*network.Find(node.output(0)));
  }
  const Crop crop = {.size = queries, .offset = 0};
  ASSIGN_OR_RETURN(x, network.AddExtra(node, {}, "_query", crop, {x}));
  std::vector<Factors> of_query = Arrangement::OfLayer(x.arrangement.layer()).axes();
  const Factors positions = of_query[2];
  of_query[1] = {{1, heads, dims}};
  of_query.push_back({{1, dims, 1}});
  of_query[2] = positions;
  x.arrangement = Arrangement(x.arrangement.layer(), of_query);
  return x;
}

}  // namespace neap::nets
