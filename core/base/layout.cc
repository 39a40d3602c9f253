#include "neap/core/base/layout.h"

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace neap {
namespace {

constexpr size_t kElementsPerThread = 1 << 20;  // 4 MiB: about a millisecond of work
constexpr size_t kMostThreads = 8;              // enough to saturate the memory bus

// {groups, rows, columns} -> {groups, columns, rows}.
void Transpose(absl::Span<const float> from, int64_t groups, int64_t rows, int64_t columns,
               absl::Span<float> to) {
  const size_t row_count = static_cast<size_t>(rows);
  const size_t column_count = static_cast<size_t>(columns);
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
    const float* const source = from.data() + group * row_count * column_count;
    float* destination = to.data() + group * row_count * column_count;
    for (size_t column = 0; column < column_count; ++column) {
      for (size_t row = 0; row < row_count; ++row)
        *destination++ = source[row * column_count + column];
    }
  }
}

// Divides `groups` groups of `elements` elements into parts and calls work(begin, end) for each on
// its own thread, or on this thread if the system refuses another.
template <typename Work>
void InParallel(size_t groups, size_t elements, const Work& work) {
  const size_t wanted = groups * elements / kElementsPerThread;
  const size_t most = std::min({kMostThreads, groups, size_t{std::thread::hardware_concurrency()}});
  const size_t count = std::clamp(wanted, size_t{1}, std::max(most, size_t{1}));
  std::vector<std::thread> threads;
  threads.reserve(count);
  size_t given = 1;  // parts handed out; the first is this thread's own
  try {
    for (; given < count; ++given)
      threads.emplace_back(work, groups * given / count, groups * (given + 1) / count);
  } catch (const std::system_error&) {
    work(groups * given / count, groups);
  }
  work(size_t{0}, groups / count);
  for (std::thread& thread : threads) thread.join();
}

bool IsReordered(const TensorSpec& spec) {
  return spec.layout == Layout::kNhwc && spec.shape.rank() == 4;
}

}  // namespace

void FromNchw(absl::Span<const float> nchw, const TensorSpec& spec, absl::Span<float> stored) {
  if (spec.shape.rank() != 4) {
    std::copy(nchw.begin(), nchw.end(), stored.begin());
    return;
  }
  const Shape& shape = spec.shape;
  const size_t image = static_cast<size_t>(shape.c() * shape.h() * shape.w());
  InParallel(static_cast<size_t>(shape.n()), image, [&](size_t begin, size_t end) {
    const absl::Span<const float> from = nchw.subspan(begin * image, (end - begin) * image);
    const absl::Span<float> to = stored.subspan(begin * image, (end - begin) * image);
    if (IsReordered(spec)) {
      Transpose(from, static_cast<int64_t>(end - begin), shape.c(), shape.h() * shape.w(), to);
    } else {
      std::copy(from.begin(), from.end(), to.begin());
    }
  });
}

void ToNchw(absl::Span<const float> stored, const TensorSpec& spec, absl::Span<float> nchw) {
  if (!IsReordered(spec)) {
    std::copy(stored.begin(), stored.end(), nchw.begin());
    return;
  }
  Transpose(stored, spec.shape.n(), spec.shape.h() * spec.shape.w(), spec.shape.c(), nchw);
}

}  // namespace neap
