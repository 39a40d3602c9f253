#include "neap/core/layout.h"

#include <algorithm>
#include <cstddef>

namespace neap {
namespace {

// {groups, rows, columns} -> {groups, columns, rows}.
void Transpose(absl::Span<const float> from, int64_t groups, int64_t rows, int64_t columns,
               absl::Span<float> to) {
  const size_t row_count = static_cast<size_t>(rows);
  const size_t column_count = static_cast<size_t>(columns);
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
    const size_t base = group * row_count * column_count;
    for (size_t row = 0; row < row_count; ++row) {
      for (size_t column = 0; column < column_count; ++column) {
        to[base + column * row_count + row] = from[base + row * column_count + column];
      }
    }
  }
}

bool IsReordered(const TensorSpec& spec) {
  return spec.layout == Layout::kNhwc && spec.shape.rank() == 4;
}

}  // namespace

void FromNchw(absl::Span<const float> nchw, const TensorSpec& spec, absl::Span<float> stored) {
  if (!IsReordered(spec)) {
    std::copy(nchw.begin(), nchw.end(), stored.begin());
    return;
  }
  Transpose(nchw, spec.shape.n(), spec.shape.c(), spec.shape.h() * spec.shape.w(), stored);
}

void ToNchw(absl::Span<const float> stored, const TensorSpec& spec, absl::Span<float> nchw) {
  if (!IsReordered(spec)) {
    std::copy(stored.begin(), stored.end(), nchw.begin());
    return;
  }
  Transpose(stored, spec.shape.n(), spec.shape.h() * spec.shape.w(), spec.shape.c(), nchw);
}

}  // namespace neap
