#include "neap/core/vision/image/random_view.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace neap {
namespace {

TEST_CASE("crops are within the image, of 8% to 100% of it, and between 3:4 and 4:3") {
  for (const ImageSize size : {ImageSize{500, 375}, {375, 500}, {64, 64}}) {
    double areas = 0;
    for (int64_t position = 0; position < 2000; ++position) {
      const PixelBox crop = DrawCrop({.seed = 3, .position = position}, size);
      REQUIRE(crop.left >= 0);
      REQUIRE(crop.top >= 0);
      REQUIRE(crop.right <= size.width);
      REQUIRE(crop.bottom <= size.height);
      const auto width = static_cast<double>(crop.width());
      const auto height = static_cast<double>(crop.height());
      const double share =
          width * height / static_cast<double>(size.width) / static_cast<double>(size.height);
      CHECK(share > 0.07);
      CHECK(width / height > 0.70);
      CHECK(width / height < 1.42);
      areas += share;
    }
    CHECK(areas / 2000 == doctest::Approx(0.52).epsilon(0.1));
  }
}

TEST_CASE("images too long for any crop give the part in their middle") {
  CHECK(DrawCrop({.seed = 1}, {3000, 10}) == PixelBox{1493, 0, 1506, 10});
  CHECK(DrawCrop({.seed = 1}, {10, 3000}) == PixelBox{0, 1493, 10, 1506});
  CHECK(DrawCrop({.seed = 1}, {1, 1}) == PixelBox{0, 0, 1, 1});
}

TEST_CASE("views differ from position to position and from seed to seed, and are repeatable") {
  const ImageSize size = {500, 375};
  std::map<int64_t, int> lefts;
  int mirrored = 0;
  for (int64_t position = 0; position < 1000; ++position) {
    const RandomView view = {.seed = 9, .position = position};
    CHECK(DrawCrop(view, size) == DrawCrop(view, size));
    ++lefts[DrawCrop(view, size).left];
    mirrored += DrawMirror(view) ? 1 : 0;
  }
  CHECK(lefts.size() > 150);
  CHECK(mirrored > 430);
  CHECK(mirrored < 570);
  CHECK(DrawCrop({.seed = 1}, size) != DrawCrop({.seed = 2}, size));
}

TEST_CASE("colour factors stay within the jitter, and all orders occur") {
  std::map<std::vector<int>, int> orders;
  for (int64_t position = 0; position < 600; ++position) {
    const ColorChange change = DrawColors({.seed = 1, .position = position, .color_jitter = 0.4F});
    for (const float factor : change.factors) {
      CHECK(factor >= 0.6F);
      CHECK(factor <= 1.4F);
    }
    ++orders[{change.order.begin(), change.order.end()}];
  }
  REQUIRE(orders.size() == 6);
  for (const auto& [order, count] : orders) CHECK(count > 60);
}

TEST_CASE("brightness, contrast and saturation are torchvision's") {
  // Two pixels: (0.2, 0.4, 0.6) and (0.8, 0.4, 0.1), of grey 0.36298 and 0.48532.
  const auto changed = [](ColorChange change) {
    std::vector<float> planes = {0.2F, 0.8F, 0.4F, 0.4F, 0.6F, 0.1F};
    ChangeColors(change, 2, planes.data());
    return planes;
  };
  const auto check = [](const std::vector<float>& planes, const std::vector<double>& expected) {
    for (size_t i = 0; i < 6; ++i)
      CHECK(static_cast<double>(planes[i]) == doctest::Approx(expected[i]).epsilon(1e-5));
  };
  check(changed({}), {0.2, 0.8, 0.4, 0.4, 0.6, 0.1});
  check(changed({.factors = {1.5F, 1, 1}}), {0.3, 1.0, 0.6, 0.6, 0.9, 0.15});
  // Towards the mean grey of the image, 0.42415.
  check(changed({.factors = {1, 0.5F, 1}}),
        {0.312075, 0.612075, 0.412075, 0.412075, 0.512075, 0.262075});
  check(changed({.factors = {1, 1, 0}}), {0.36298, 0.48532, 0.36298, 0.48532, 0.36298, 0.48532});
  // Brightness first, or last.
  check(changed({.factors = {2, 1, 0}}), {0.70316, 0.7913, 0.70316, 0.7913, 0.70316, 0.7913});
  check(changed({.factors = {2, 1, 0},
                 .order = {ColorChange::kSaturation, ColorChange::kContrast,
                           ColorChange::kBrightness}}),
        {0.72596, 0.97064, 0.72596, 0.97064, 0.72596, 0.97064});
}

}  // namespace
}  // namespace neap
