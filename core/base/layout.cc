#include "neap/core/base/layout.h"

#include <algorithm>
#include <cstddef>

#include "neap/core/base/float16.h"
#include "neap/core/base/parallel.h"

namespace neap {
namespace {

constexpr size_t kElementsPerThread = 1 << 20;  // 4 MiB: about a millisecond of work
constexpr size_t kMaxThreads = 8;               // enough to saturate the memory bus

// {3, columns} -> {columns, 3}: the images of most networks. A loop over three rows within that
// over the columns would take most of the time.
template <typename From, typename To>
void TransposeThree(const From* from, size_t columns, To* to) {
  for (size_t i = 0; i < columns; ++i) {
    to[3 * i] = static_cast<To>(from[i]);
    to[3 * i + 1] = static_cast<To>(from[columns + i]);
    to[3 * i + 2] = static_cast<To>(from[2 * columns + i]);
  }
}

// {groups, rows, columns} -> {groups, columns, rows}.
template <typename From, typename To>
void Transpose(const From* from, int64_t groups, int64_t rows, int64_t columns, To* to) {
  const size_t row_count = static_cast<size_t>(rows);
  const size_t column_count = static_cast<size_t>(columns);
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
    const From* const source = from + group * row_count * column_count;
    To* destination = to + group * row_count * column_count;
    if (row_count == 3) {
      TransposeThree(source, column_count, destination);
      continue;
    }
    for (size_t column = 0; column < column_count; ++column) {
      for (size_t row = 0; row < row_count; ++row)
        *destination++ = static_cast<To>(source[row * column_count + column]);
    }
  }
}

template <typename From, typename To>
void Copy(const From* from, size_t count, To* to) {
  std::transform(from, from + count, to, [](From value) { return static_cast<To>(value); });
}

bool IsReordered(const TensorSpec& spec) {
  return spec.layout == Layout::kChannelsLast && spec.shape.spatial_axes() > 0;
}

template <typename To>
void Store(const float* nchw, const TensorSpec& spec, To* stored) {
  const Shape& shape = spec.shape;
  const size_t image = static_cast<size_t>(spec.elements() / shape.n());
  const size_t elements = static_cast<size_t>(spec.elements());
  const size_t threads = std::min(elements / kElementsPerThread, kMaxThreads);
  InParallel(static_cast<size_t>(shape.n()), threads, [&](size_t begin, size_t end) {
    const float* const from = nchw + begin * image;
    To* const to = stored + begin * image;
    if (IsReordered(spec)) {
      Transpose(from, static_cast<int64_t>(end - begin), shape.c(), shape.positions(), to);
    } else {
      Copy(from, (end - begin) * image, to);
    }
  });
}

template <typename From>
void Load(const From* stored, const TensorSpec& spec, float* nchw) {
  const Shape& shape = spec.shape;
  if (IsReordered(spec)) {
    Transpose(stored, shape.n(), shape.positions(), shape.c(), nchw);
  } else {
    Copy(stored, static_cast<size_t>(spec.elements()), nchw);
  }
}

}  // namespace

void FromNchw(absl::Span<const float> nchw, const TensorSpec& spec, std::byte* stored) {
  switch (spec.dtype) {
    case DType::kFp16:
      return Store(nchw.data(), spec, reinterpret_cast<Fp16*>(stored));
    case DType::kBf16:
      return Store(nchw.data(), spec, reinterpret_cast<Bf16*>(stored));
    default:
      return Store(nchw.data(), spec, reinterpret_cast<float*>(stored));
  }
}

void ToNchw(const std::byte* stored, const TensorSpec& spec, absl::Span<float> nchw) {
  switch (spec.dtype) {
    case DType::kFp16:
      return Load(reinterpret_cast<const Fp16*>(stored), spec, nchw.data());
    case DType::kBf16:
      return Load(reinterpret_cast<const Bf16*>(stored), spec, nchw.data());
    default:
      return Load(reinterpret_cast<const float*>(stored), spec, nchw.data());
  }
}

}  // namespace neap
