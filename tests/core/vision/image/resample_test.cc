#include "neap/core/vision/image/resample.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace neap {
namespace {

constexpr ByteScale kPlain = {{1, 1, 1}, {0, 0, 0}};

DecodedPart RandomPart(const PixelBox& box, uint32_t seed) {
  std::mt19937 random(seed);
  DecodedPart part = {.box = box};
  for (int64_t i = 0; i < 4 * box.width() * box.height(); ++i)
    part.pixels.push_back(static_cast<uint8_t>(random()));
  return part;
}

std::vector<float> Resampled(const DecodedPart& from, const Axis& rows, const Axis& columns,
                             const ByteScale& scale = kPlain) {
  std::vector<float> planes(static_cast<size_t>(3 * rows.outputs * columns.outputs));
  Resample(from, Taps(rows), Taps(columns), scale, planes.data());
  return planes;
}

// The weight of a pixel for an output, as the definition says: a triangle around the output's
// centre, of the reduction's width but not below a pixel's.
double Weight(const Axis& axis, int64_t output, int64_t pixel) {
  if (pixel < axis.clip_begin || pixel >= axis.clip_end) return 0;
  const double step = axis.extent / static_cast<double>(axis.outputs);
  const double centre = axis.begin + (static_cast<double>(output) + 0.5) * step;
  const double distance = std::abs(static_cast<double>(pixel) + 0.5 - centre);
  return std::max(0.0, 1 - distance / std::max(1.0, step));
}

double Reference(const DecodedPart& from, const Axis& rows, const Axis& columns, int64_t y,
                 int64_t x, int64_t c) {
  double sum = 0;
  double weights = 0;
  for (int64_t v = from.box.top; v < from.box.bottom; ++v) {
    for (int64_t u = from.box.left; u < from.box.right; ++u) {
      const double weight = Weight(rows, y, v) * Weight(columns, x, u);
      sum += weight * from.Row(v)[4 * (u - from.box.left) + c];
      weights += weight;
    }
  }
  return sum / weights;
}

TEST_CASE("resizing agrees with a sum in float64 over all pixels, for any part and size") {
  std::mt19937 random(5);
  const auto below = [&](int64_t count) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  };
  for (uint32_t round = 0; round < 60; ++round) {
    CAPTURE(round);
    const PixelBox box = {below(5), below(5), 6 + below(30), 6 + below(30)};
    const DecodedPart from = RandomPart(box, round);
    Axis rows = {.begin = static_cast<double>(box.top),
                 .extent = static_cast<double>(box.height()),
                 .outputs = 1 + below(12),
                 .clip_begin = box.top,
                 .clip_end = box.bottom};
    const Axis columns = {.begin = static_cast<double>(box.left) + 0.25,
                          .extent = static_cast<double>(box.width()) - 0.75,
                          .outputs = 1 + below(50),
                          .clip_begin = box.left,
                          .clip_end = box.right};
    const std::vector<float> planes = Resampled(from, rows, columns);
    double most = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(planes.size()); ++i) {
      const int64_t x = i % columns.outputs;
      const int64_t y = i / columns.outputs % rows.outputs;
      const int64_t c = i / columns.outputs / rows.outputs;
      const double expected = Reference(from, rows, columns, y, x, c);
      most =
          std::max(most, std::abs(expected - static_cast<double>(planes[static_cast<size_t>(i)])));
    }
    CHECK(most < 1e-4);  // of 255
  }
}

TEST_CASE("an image in its own size keeps its values, normalised") {
  const DecodedPart from = RandomPart({0, 0, 9, 7}, 1);
  const std::vector<float> planes =
      Resampled(from, {.extent = 7, .outputs = 7, .clip_end = 7},
                {.extent = 9, .outputs = 9, .clip_end = 9}, {{0.5F, 2, 1}, {1, 0, -3}});
  for (int64_t i = 0; i < 63; ++i) {
    const uint8_t* const pixel = from.Row(i / 9) + 4 * (i % 9);
    CHECK(planes[static_cast<size_t>(i)] == 0.5F * static_cast<float>(pixel[0]) - 1);
    CHECK(planes[static_cast<size_t>(63 + i)] == 2 * static_cast<float>(pixel[1]));
    CHECK(planes[static_cast<size_t>(126 + i)] == static_cast<float>(pixel[2]) + 3);
  }
}

TEST_CASE("a mirrored axis gives the same values in the opposite order") {
  const DecodedPart from = RandomPart({2, 1, 33, 20}, 2);
  const Axis rows = {.begin = 1, .extent = 19, .outputs = 5, .clip_begin = 1, .clip_end = 20};
  Axis columns = {.begin = 2, .extent = 31, .outputs = 11, .clip_begin = 2, .clip_end = 33};
  const std::vector<float> plain = Resampled(from, rows, columns);
  columns.mirrored = true;
  std::vector<float> mirrored = Resampled(from, rows, columns);
  for (auto row = mirrored.begin(); row != mirrored.end(); row += 11) std::reverse(row, row + 11);
  CHECK(mirrored == plain);
}

TEST_CASE("taps stay within the clip, and say which pixels they need") {
  const Taps taps({.begin = 10, .extent = 20, .outputs = 4, .clip_begin = 10, .clip_end = 30});
  CHECK(taps.begin() == 10);
  CHECK(taps.end() == 30);
  const Taps wider({.begin = 10, .extent = 20, .outputs = 4, .clip_end = 100});
  CHECK(wider.begin() == 8);  // half an output beyond
  CHECK(wider.end() == 33);   // pixel 32 has a weight of 0
  for (int64_t i = 0; i < 4; ++i) {
    float sum = 0;
    for (const float weight : taps.weights(i)) sum += weight;
    CHECK(sum == doctest::Approx(1));
  }
}

}  // namespace
}  // namespace neap
