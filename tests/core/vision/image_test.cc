#include "neap/core/vision/image.h"

#include <doctest/doctest.h>

#include "neap/core/vision/augment.h"

namespace neap {
namespace {

// A scale that keeps bytes 0..255 as they are.
constexpr ChannelScale kIdentity = {.mean = 0.0F, .deviation = 1.0F / 255.0F};

std::vector<float> Transformed(ImageShape source, ImageShape target,
                               const std::vector<uint8_t>& bytes, ChannelScale scale = kIdentity) {
  const auto transform = ImageTransform::Create(
      source, target, std::vector<ChannelScale>(static_cast<size_t>(source.c), scale));
  REQUIRE(transform.ok());
  std::vector<float> pixels(static_cast<size_t>(target.elements()));
  transform->Apply(bytes, pixels.data());
  return pixels;
}

void CheckNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE("an image of the right size is only normalised") {
  CheckNear(
      Transformed({1, 2, 2}, {1, 2, 2}, {0, 51, 102, 255}, {.mean = 0.5F, .deviation = 0.25F}),
      {-2.0F, -1.2F, -0.4F, 2.0F});
}

TEST_CASE("doubling a row interpolates with half-pixel centres and clamps at the edges") {
  CheckNear(Transformed({1, 1, 2}, {1, 1, 4}, {0, 100}), {0, 25, 75, 100});
}

TEST_CASE("a row and a column are resized independently") {
  CheckNear(Transformed({1, 2, 2}, {1, 4, 1}, {0, 40, 80, 120}), {20, 40, 80, 100});
}

TEST_CASE("one pixel fills any image, and any image shrinks to its middle") {
  CheckNear(Transformed({1, 1, 1}, {1, 2, 3}, {7}), {7, 7, 7, 7, 7, 7});
  CheckNear(Transformed({1, 3, 3}, {1, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), {5});
}

TEST_CASE("grey is repeated for every channel, and colour is weighed into grey") {
  CheckNear(Transformed({1, 1, 2}, {3, 1, 2}, {1, 2}), {1, 2, 1, 2, 1, 2});
  CheckNear(Transformed({3, 1, 1}, {1, 1, 1}, {100, 200, 50}),
            {0.299F * 100 + 0.587F * 200 + 5.7F});
  CheckNear(Transformed({3, 1, 1}, {3, 1, 1}, {1, 2, 3}), {1, 2, 3});
}

TEST_CASE("images that cannot be made from others are refused by their shapes") {
  const auto create = [](ImageShape source, ImageShape target) {
    return ImageTransform::Create(source, target, {}).status();
  };
  CHECK(create({3, 32, 32}, {2, 32, 32}).message() ==
        "cannot make images of 2x32x32 from images of 3x32x32");
  CHECK(!create({1, 32, 32}, {1, 0, 32}).ok());
  CHECK(!create({1, 32, 32}, {1, 32, -1}).ok());
}

TEST_CASE("a shift moves the image and fills with zeros") {
  const float from[] = {1, 2, 3, 4, 5, 6};  // 2 x 3
  float to[6];
  Augment({.down = 1, .right = -1}, {1, 2, 3}, from, to);
  CHECK(std::vector<float>(to, to + 6) == std::vector<float>{0, 0, 0, 2, 3, 0});
  Augment({.down = 0, .right = 2}, {1, 2, 3}, from, to);
  CHECK(std::vector<float>(to, to + 6) == std::vector<float>{0, 0, 1, 0, 0, 4});
}

TEST_CASE("a flip mirrors every row, before the shift, channel by channel") {
  const float from[] = {1, 2, 3, 4};  // 2 channels of 1 x 2
  float to[4];
  Augment({.flip = true}, {2, 1, 2}, from, to);
  CHECK(std::vector<float>(to, to + 4) == std::vector<float>{2, 1, 4, 3});
  Augment({.right = 1, .flip = true}, {2, 1, 2}, from, to);
  CHECK(std::vector<float>(to, to + 4) == std::vector<float>{0, 2, 0, 4});
}

TEST_CASE("augmentations keep to their limits, use all of them, and repeat") {
  bool flipped[2] = {};
  std::vector<int> downs(5);
  std::vector<int> rights(5);
  for (int64_t position = 0; position < 1000; ++position) {
    const Augmentation drawn = DrawAugmentation(/*seed=*/3, position, 2, true);
    const Augmentation again = DrawAugmentation(3, position, 2, true);
    REQUIRE((drawn.down >= -2 && drawn.down <= 2 && drawn.right >= -2 && drawn.right <= 2));
    CHECK((again.down == drawn.down && again.right == drawn.right && again.flip == drawn.flip));
    ++downs[static_cast<size_t>(drawn.down + 2)];
    ++rights[static_cast<size_t>(drawn.right + 2)];
    flipped[drawn.flip ? 1 : 0] = true;
    CHECK(!DrawAugmentation(3, position, 2, false).flip);
  }
  for (size_t i = 0; i < 5; ++i) CHECK((downs[i] > 100 && rights[i] > 100));
  CHECK((flipped[0] && flipped[1]));
}

}  // namespace
}  // namespace neap
