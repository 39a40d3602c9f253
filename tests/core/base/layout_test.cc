#include "neap/core/base/layout.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include "neap/core/base/float16.h"
#include "tests/no_threads.h"

namespace neap {
namespace {

// Values that every type represents.
float ValueAt(size_t i) { return static_cast<float>(i % 251); }

template <typename Stored>
void CheckThereAndBack(const Shape& shape, DType dtype) {
  CAPTURE(shape.ToString());
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const TensorSpec spec = {.shape = shape, .dtype = dtype, .layout = layout};
    std::vector<float> nchw(static_cast<size_t>(spec.elements()));
    for (size_t i = 0; i < nchw.size(); ++i) nchw[i] = ValueAt(i);
    std::vector<Stored> bytes(nchw.size(), Stored(-1.0F));
    std::vector<float> back(nchw.size(), -1);
    FromNchw(nchw, spec, reinterpret_cast<std::byte*>(bytes.data()));
    std::vector<float> stored(nchw.size());
    for (size_t i = 0; i < nchw.size(); ++i) stored[i] = static_cast<float>(bytes[i]);
    if (layout == Layout::kChannelsFirst || shape.rank() < 3) {
      CHECK(stored == nchw);
    } else {
      int64_t pixels = 1;
      for (int axis = 2; axis < shape.rank(); ++axis) pixels *= shape[axis];
      int64_t wrong = 0;
      for (int64_t i = 0; i < spec.elements(); ++i) {
        const int64_t channel = i % shape.c(), pixel = i / shape.c() % pixels;
        const int64_t image = i / shape.c() / pixels;
        const int64_t from = (image * shape.c() + channel) * pixels + pixel;
        wrong += stored[static_cast<size_t>(i)] == nchw[static_cast<size_t>(from)] ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
    ToNchw(reinterpret_cast<const std::byte*>(bytes.data()), spec, absl::MakeSpan(back));
    CHECK(back == nchw);
  }
}

void CheckThereAndBack(const Shape& shape) {
  CheckThereAndBack<float>(shape, DType::kFp32);
  CheckThereAndBack<Fp16>(shape, DType::kFp16);
  CheckThereAndBack<Bf16>(shape, DType::kBf16);
}

TEST_CASE("values are converted to either layout and back") {
  CheckThereAndBack({2, 3, 4, 5});
  CheckThereAndBack({1, 1, 1, 1});
  CheckThereAndBack({7});
  CheckThereAndBack({3, 4});
  CheckThereAndBack({3, 4, 5});
  CheckThereAndBack({2, 3, 7});
  CheckThereAndBack({2, 3, 4, 5, 6});
  CheckThereAndBack({2, 5, 1, 3, 1});
}

TEST_CASE("large batches, which several threads share, are converted in the same way") {
  CheckThereAndBack({5, 3, 512, 640});
  CheckThereAndBack({2, 40, 256, 128});
}

TEST_CASE("if no thread can be started, the calling thread does all the work") {
  const testing::NoThreads none;
  CheckThereAndBack({5, 3, 512, 640});
}

}  // namespace
}  // namespace neap
