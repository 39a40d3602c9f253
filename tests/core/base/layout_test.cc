#include "neap/core/base/layout.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "tests/no_threads.h"

namespace neap {
namespace {

void CheckThereAndBack(const Shape& shape) {
  CAPTURE(shape.ToString());
  for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    const TensorSpec spec = {.shape = shape, .layout = layout};
    std::vector<float> nchw(static_cast<size_t>(spec.elements()));
    std::iota(nchw.begin(), nchw.end(), 0.0F);
    std::vector<float> stored(nchw.size(), -1), back(nchw.size(), -1);
    FromNchw(nchw, spec, absl::MakeSpan(stored));
    if (layout == Layout::kNchw || shape.rank() != 4) {
      CHECK(stored == nchw);
    } else {
      const int64_t pixels = shape.h() * shape.w();
      int64_t wrong = 0;
      for (int64_t i = 0; i < spec.elements(); ++i) {
        const int64_t channel = i % shape.c(), pixel = i / shape.c() % pixels;
        const int64_t image = i / shape.c() / pixels;
        const int64_t from = (image * shape.c() + channel) * pixels + pixel;
        wrong += stored[static_cast<size_t>(i)] == nchw[static_cast<size_t>(from)] ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
    ToNchw(stored, spec, absl::MakeSpan(back));
    CHECK(back == nchw);
  }
}

TEST_CASE("values are converted to either layout and back") {
  CheckThereAndBack({2, 3, 4, 5});
  CheckThereAndBack({1, 1, 1, 1});
  CheckThereAndBack({7});
  CheckThereAndBack({3, 4, 5});
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
