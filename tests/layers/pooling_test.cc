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

TEST_CASE("rounded up and with dilation, poolings have PyTorch's sizes") {
  // torch.nn.MaxPool2d(kernel, stride, padding, dilation, ceil_mode=True) of images of 7x9.
  const auto size = [](const MaxPool& pool) {
    const absl::StatusOr<LayerSpec> spec = pool.Specify({.inputs = {{.shape = {2, 3, 7, 9}}}});
    return spec.ok() ? spec->output.shape.ToString() : std::string(spec.status().message());
  };
  CHECK(size({.kernel = 3, .stride = 2, .dilation = 2}) == "2x3x2x3");
  CHECK(size({.kernel = 2, .stride = 2, .ceil_mode = true, .dilation = 2}) == "2x3x3x4");
  CHECK(size({.kernel = 3, .stride = 3, .padding = 1, .ceil_mode = true, .dilation = 2}) ==
        "2x3x3x3");
  // A third row of windows would begin behind the image.
  CHECK(size({.kernel = 2, .stride = 4, .padding = 1, .ceil_mode = true, .dilation = {3, 2}}) ==
        "2x3x2x3");
  CHECK(size({.kernel = 4, .stride = 1, .dilation = 3}) ==
        "kernel 4x4 with dilation 3x3 is larger than the image 7x9 with padding 0x0");
  CHECK(size({.kernel = 2, .padding = 2, .dilation = {3, 2}}) ==
        "padding 2x2 is more than half the kernel 2x2 with dilation 3x2");
  CHECK(size({.kernel = 1 << 20, .dilation = 1 << 20}) ==
        "kernel 1048576x1048576 with dilation 1048576x1048576 reaches over more than 2147483647 "
        "pixels");
  CHECK(MaxPool{.kernel = 3, .dilation = {2, 1}}.Parameters() ==
        "kernel=3x3 stride=2x2 padding=0x0 dilation=2x1");
}

TEST_CASE("a pooling of which a window holds padding only is refused, unless it counts padding") {
  int refused = 0;
  for (int64_t i = 0; i < 6 * 4 * 6 * 3 * 6 * 2; ++i) {
    const int64_t size = i % 6 + 1;
    const int64_t kernel = i / 6 % 4 + 1;
    const int64_t dilation = i / 24 % 6 + 1;
    const int64_t stride = i / 144 % 3 + 1;
    const int64_t padding = i / 432 % 6;
    MaxPool pool = {.kernel = {kernel, 1}, .stride = {stride, 1}, .padding = {padding, 0}};
    pool.dilation = {dilation, 1};
    pool.ceil_mode = i / 2592 == 1;
    const LayerContext context = {.inputs = {{.shape = {1, 1, size, 1}}}};
    AveragePool average = {pool.kernel, pool.stride,    pool.padding,
                           true,        pool.ceil_mode, pool.dilation};
    const absl::StatusOr<LayerSpec> counting = average.Specify(context);
    average.count_padding = false;
    CAPTURE(size);
    CAPTURE(pool.Parameters());
    bool all_hold_pixels = counting.ok();
    for (int64_t y = 0; counting.ok() && y < counting->output.shape.h(); ++y) {
      bool holds_pixel = false;
      for (int64_t k = 0; k < kernel; ++k) {
        const int64_t pixel = y * stride - padding + k * dilation;
        holds_pixel = holds_pixel || (pixel >= 0 && pixel < size);
      }
      all_hold_pixels = all_hold_pixels && holds_pixel;
    }
    CHECK(pool.Specify(context).ok() == all_hold_pixels);
    CHECK(average.Specify(context).ok() == all_hold_pixels);
    refused += counting.ok() && !all_hold_pixels ? 1 : 0;
  }
  CHECK(refused > 50);
  const absl::Status status = MaxPool{.kernel = 2, .stride = 1, .padding = 1, .dilation = 5}
                                  .Specify({.inputs = {{.shape = {1, 1, 4, 4}}}})
                                  .status();
  CHECK(status.message() ==
        "a window of kernel 2x2 with dilation 5x5 and padding 1x1 holds no pixel of the image 4x4");
}

TEST_CASE("windows that hold no pixel are found at once, however many there are") {
  const int64_t most = (int64_t{1} << 31) - 1;
  // Of an image with a pixel less than the distance of two elements, one window in each period.
  CHECK(!AllHoldPixels(most - 2, most, 1, most / 2, most - 1));
  CHECK(AllHoldPixels(most - 1, most, 1, most / 2, most - 1));
  // Windows begin at even distances before the image: of 0, 2, ..., 99,998, some of each.
  CHECK(AllHoldPixels(99'999, most, 2, 1'000'000'000, 100'000));
  CHECK(!AllHoldPixels(99'998, most, 2, 1'000'000'000, 100'000));
}

TEST_CASE("a pooling has at most 2^31 - 1 elements, which are counted in 32 bits") {
  const LayerContext context = {.inputs = {{.shape = {1, 1, 1, 1}}}};
  const Extents kernel = {65536, 65536};
  const std::string refusal = "kernel 65536x65536 has more than 2147483647 elements";
  CHECK(MaxPool{.kernel = kernel, .padding = 32768}.Specify(context).status().message() == refusal);
  CHECK(AveragePool{.kernel = kernel, .padding = 32768, .count_padding = true}
            .Specify(context)
            .status()
            .message() == refusal);
  const Extents fewer = {65536, 32767};
  CHECK(MaxPool{.kernel = fewer, .padding = 0}
            .Specify({.inputs = {{.shape = {1, 1, fewer.h(), fewer.w()}}}})
            .ok());
}

}  // namespace
}  // namespace neap
