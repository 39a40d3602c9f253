// Patches of volumes, against a brute force and by what their random choices must be.
#include "neap/core/data/patch.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "neap/core/program/feeds.h"

namespace neap {
namespace {

// Voxel (c, z, y, x) is 1000 c + 100 z + 10 y + x; its label is 1 in one corner, 2 in a block.
struct Scan {
  explicit Scan(const ImageShape& shape) : volume{shape, {}}, labels{shape, {}} {
    labels.shape.c = 1;
    for (int64_t c = 0; c < shape.c; ++c)
      Each([&](int64_t z, int64_t y, int64_t x) {
        volume.values.push_back(static_cast<float>(1000 * c + 100 * z + 10 * y + x));
      });
    Each([&](int64_t z, int64_t y, int64_t x) {
      const bool corner = z == 0 && y == 0 && x == 0;
      labels.labels.push_back(corner ? 1 : z == 3 && y >= 4 && x >= 5 ? 2 : 0);
    });
  }
  template <typename Visit>
  void Each(const Visit& visit) const {
    for (int64_t z = 0; z < volume.shape.d; ++z) {
      for (int64_t y = 0; y < volume.shape.h; ++y) {
        for (int64_t x = 0; x < volume.shape.w; ++x) visit(z, y, x);
      }
    }
  }
  Volume volume;
  VolumeLabels labels;
};

constexpr ImageShape kScanShape = {.c = 2, .h = 7, .w = 9, .d = 5};
constexpr int64_t kScanClasses = 4;

Patch Draw(const Scan& scan, int64_t position, double foreground, const ImageShape& shape) {
  return DrawPatch({.seed = 3, .position = position}, foreground, scan.labels,
                   CountClasses(scan.labels, kScanClasses), shape);
}

TEST_CASE("a patch has the voxels that it covers, mirrored or not, and padding beyond the volume") {
  const Scan scan(kScanShape);
  const ImageShape shape = {.c = 2, .h = 3, .w = 12, .d = 2};
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::vector<int32_t> labels(static_cast<size_t>(shape.positions()));
  for (int mirrored = 0; mirrored < 8; ++mirrored) {
    Patch patch = {.begin = {1, 4, -1}};
    for (size_t axis = 0; axis < 3; ++axis) patch.mirrored[axis] = (mirrored >> axis & 1) == 1;
    CutPatch(scan.volume, scan.labels, patch, shape, values.data(), labels.data());
    size_t i = 0, j = 0;
    for (int64_t c = 0; c < shape.c; ++c) {
      for (int64_t z = 0; z < shape.d; ++z) {
        for (int64_t y = 0; y < shape.h; ++y) {
          for (int64_t x = 0; x < shape.w; ++x) {
            const int64_t from_z = 1 + (patch.mirrored[0] ? 1 - z : z);
            const int64_t from_y = 4 + (patch.mirrored[1] ? 2 - y : y);
            const int64_t from_x = -1 + (patch.mirrored[2] ? 11 - x : x);
            const bool inside = from_x >= 0 && from_x < 9;
            const auto at = static_cast<size_t>((from_z * 7 + from_y) * 9 + from_x);
            CHECK(values[i++] ==
                  (inside ? static_cast<float>(1000 * c + 100 * from_z + 10 * from_y + from_x)
                          : 0.0F));
            if (c != 0) continue;
            CHECK(labels[j++] == (inside ? int32_t{scan.labels.labels[at]} : kNoLabel));
          }
        }
      }
    }
  }
}

TEST_CASE("the middle of a volume, and of a patch that is larger") {
  CHECK(CentralPatch(kScanShape, {.c = 2, .h = 3, .w = 4, .d = 5}).begin ==
        std::array<int64_t, 3>{0, 2, 2});
  CHECK(CentralPatch(kScanShape, {.c = 2, .h = 8, .w = 9, .d = 9}).begin ==
        std::array<int64_t, 3>{-2, 0, 0});
}

TEST_CASE("patches of foreground have their voxel, of each class equally often") {
  const Scan scan(kScanShape);
  CHECK(CountClasses(scan.labels, kScanClasses) == std::vector<int64_t>{302, 1, 12, 0});
  const ImageShape shape = {.c = 2, .h = 3, .w = 3, .d = 1};
  constexpr int kDraws = 400;
  int corner = 0;
  std::set<std::array<int64_t, 3>> begins;
  for (int64_t i = 0; i < kDraws; ++i) {
    const Patch patch = Draw(scan, i, 1, shape);
    begins.insert(patch.begin);
    if (patch.begin == std::array<int64_t, 3>{0, 0, 0}) {
      ++corner;  // moved to the border
      continue;
    }
    CHECK(patch.begin[0] == 3);  // around y from 4 to 6, x from 5 to 8
    CHECK((patch.begin[1] >= 3 && patch.begin[1] <= 4));
    CHECK((patch.begin[2] >= 4 && patch.begin[2] <= 6));
  }
  CHECK(corner > kDraws * 4 / 10);
  CHECK(corner < kDraws * 6 / 10);
  CHECK(begins.size() == 1 + 2 * 3);
}

TEST_CASE("the share of foreground is as wanted, and other patches are anywhere") {
  const Scan scan(kScanShape);
  const ImageShape shape = {.c = 2, .h = 7, .w = 9, .d = 1};  // D alone is random
  constexpr int kDraws = 3000;
  std::array<int, 5> anywhere = {}, third = {};
  std::set<std::array<bool, 3>> mirrored;
  for (int64_t i = 0; i < kDraws; ++i) {
    ++anywhere[static_cast<size_t>(Draw(scan, i, 0, shape).begin[0])];
    const Patch patch = Draw(scan, i, 1.0 / 3, shape);
    ++third[static_cast<size_t>(patch.begin[0])];
    mirrored.insert(patch.mirrored);
    CHECK(patch == Draw(scan, i, 1.0 / 3, shape));
  }
  CHECK(mirrored.size() == 8);
  for (const int count : anywhere) {
    CHECK(count > kDraws / 5 * 8 / 10);
    CHECK(count < kDraws / 5 * 12 / 10);
  }
  // Two thirds anywhere, and a sixth around class 1 in the first slice.
  const double expected = kDraws * (2.0 / 3 / 5 + 1.0 / 6);
  CHECK(static_cast<double>(third[0]) == doctest::Approx(expected).epsilon(0.1));
  CHECK(static_cast<double>(third[3]) == doctest::Approx(expected).epsilon(0.1));
  CHECK(static_cast<double>(third[1]) == doctest::Approx(kDraws * 2.0 / 3 / 5).epsilon(0.15));
}

TEST_CASE("a volume without foreground, or smaller than the patch, has patches, too") {
  Scan scan(kScanShape);
  scan.labels.labels.assign(scan.labels.labels.size(), 0);
  std::set<std::array<int64_t, 3>> begins;
  for (int64_t i = 0; i < 200; ++i)
    begins.insert(Draw(scan, i, 1, {.c = 2, .h = 6, .w = 20, .d = 4}).begin);
  CHECK(begins == std::set<std::array<int64_t, 3>>{{0, 0, -5}, {0, 1, -5}, {1, 0, -5}, {1, 1, -5}});
}

}  // namespace
}  // namespace neap
