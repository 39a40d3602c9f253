#include "neap/layers/pooling.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "neap/core/step/layer.h"

namespace neap {
namespace {

// Moves the window on until it reaches the end of the padded image.
int64_t CountedPositions(int64_t size, int64_t kernel, int64_t stride, int64_t before,
                         int64_t after) {
  int64_t begin = -before, count = 1;
  while (begin + kernel < size + after) {
    begin += stride;
    ++count;
  }
  return begin < size ? count : count - 1;
}

TEST_CASE(
    "rounded up, the windows reach the padded image's end, but none begins behind the image") {
  for (int64_t size = 1; size <= 9; ++size) {
    for (int64_t kernel = 1; kernel <= 4; ++kernel) {
      for (int64_t stride = 1; stride <= 5; ++stride) {
        for (int64_t before = 0; before <= kernel / 2; ++before) {
          for (int64_t after = 0; after <= kernel / 2; ++after) {
            if (size + before + after - kernel <= -stride) continue;
            CAPTURE(size);
            CAPTURE(kernel);
            CAPTURE(stride);
            CAPTURE(before);
            CAPTURE(after);
            CHECK(CeilPositions(size, kernel, stride, before, after) ==
                  CountedPositions(size, kernel, stride, before, after));
          }
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("poolings with ceil_mode have PyTorch's sizes", Pool, MaxPool, AveragePool) {
  const auto size = [](const Pool& pool, int64_t image) {
    const absl::StatusOr<LayerSpec> spec =
        pool.Specify({.inputs = {{.shape = {2, 3, image, image}}}});
    return spec.ok() ? spec->output.shape.ToString() : std::string(spec.status().message());
  };
  CHECK(size({.kernel = 3, .stride = 2, .ceil_mode = true}, 112) == "2x3x56x56");
  CHECK(size({.kernel = 3, .stride = 2}, 112) == "2x3x55x55");
  CHECK(size({.kernel = 3, .stride = 2, .ceil_mode = true}, 7) == "2x3x3x3");
  CHECK(size({.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}, 5) == "2x3x2x2");
  // Smaller than the window, but by less than a stride.
  CHECK(size({.kernel = 3, .stride = 2, .ceil_mode = true}, 2) == "2x3x1x1");
  CHECK(size({.kernel = 3, .stride = 2, .ceil_mode = true}, 1) ==
        "kernel 3x3 with dilation 1x1 is larger than the image 1x1 with padding 0x0");
}

}  // namespace
}  // namespace neap
