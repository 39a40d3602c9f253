#include "neap/core/step/window.h"

#include <cassert>

#include "absl/strings/str_join.h"

namespace neap {

Extents Extents::Of(absl::Span<const int64_t> values) {
  assert(!values.empty() && values.size() <= static_cast<size_t>(kMaxSpatialAxes));
  Extents extents;
  std::copy(values.begin(), values.end(), extents.values_.begin());
  extents.axes_ = static_cast<int>(values.size());
  return extents;
}

int64_t Extents::product() const {
  int64_t product = 1;
  for (int64_t value : values()) product = SaturatingProduct(product, value);
  return product;
}

std::string Extents::ToString() const { return absl::StrJoin(values(), "x"); }

}  // namespace neap
