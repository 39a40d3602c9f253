// The declarations of layers that give the same elements other axes or places, or repeat them.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"
#include "tests/core/step/specify_checks.h"

namespace neap {
namespace {

TEST_CASE("a reshape runs in place where elements keep their order in memory") {
  const auto runs_in_place = [](Layout layout, const std::vector<int64_t>& to) {
    const LayerSpec spec = Specified(Reshape{to}, {{{2, 6, 4, 5}, DType::kFp32, layout}});
    CHECK(spec.steps[0].in_place.empty() == spec.steps[1].in_place.empty());
    return !spec.steps[0].in_place.empty();
  };
  for (const std::vector<int64_t>& to : {std::vector<int64_t>{0, -1}, {3, 40}, {-1, 1, 1}})
    CHECK(runs_in_place(Layout::kChannelsFirst, to));
  CHECK(runs_in_place(Layout::kChannelsLast, {0, -1}));
  CHECK_FALSE(runs_in_place(Layout::kChannelsLast, {3, 40}));
  CHECK_FALSE(runs_in_place(Layout::kChannelsLast, {-1, 1, 1}));
  CHECK(Specified(Reshape{{0, -1}}, {Image({2, 6, 4, 5})}).output.shape == Shape{2, 6, 20});
  CHECK(Specified(Permute{{3, 1, 2}}, {Image({2, 6, 4, 5})}).output.shape == Shape{2, 5, 6, 4});
  CHECK(Specified(WindowPartition{{2, 5}}, {Image({2, 6, 4, 5})}).output.shape ==
        Shape{2, 6, 2, 10});
  CHECK(Specified(WindowMerge{.window = {2, 5}, .size = {4, 5}}, {Image({2, 6, 2, 10})})
            .output.shape == Shape{2, 6, 4, 5});
}

TEST_CASE("a tile is as often as large along each axis as it is repeated") {
  const auto shape_of = [](const Tile& tile, const Shape& x) {
    return Specified(tile, {Image(x)}).output.shape;
  };
  CHECK(shape_of({.repeats = {1, 2}, .channels = 3}, {2, 6, 4, 5}) == Shape{2, 18, 4, 10});
  CHECK(shape_of({.repeats = 3}, {2, 6, 5}) == Shape{2, 6, 15});
  CHECK(shape_of({.repeats = {2, 1, 7}}, {2, 1, 4, 5, 1}) == Shape{2, 1, 8, 5, 7});
  const LayerSpec spec = Specified(Tile{.repeats = 2}, {Image({2, 6, 4, 5})});
  REQUIRE(spec.steps.size() == 2);
  CHECK(spec.steps[0].in_place.empty());
  CHECK(spec.steps[1].in_place.empty());
}

TEST_CASE("shapes that do not fit a reshape, a permutation or windows are refused") {
  const TensorSpec x = Image({2, 6, 4, 5});
  const TensorSpec last = {{2, 6, 4, 5}, DType::kFp32, Layout::kChannelsLast};
  CheckRefused(Reshape{{7, -1}}, {x}, "cannot reshape 2x6x4x5 to N, 7, -1");
  CheckRefused(Reshape{{-1, -1}}, {x}, "cannot reshape 2x6x4x5 to N, -1, -1");
  CheckRefused(Reshape{{120}}, {x}, "cannot reshape 2x6x4x5 to N, 120");
  CheckRefused(Reshape{{4, 30}}, {last},
               "cannot reshape 2x6x4x5 to 2x4x30 in channels-last: of 6 and 4 channels, neither is "
               "a multiple of the other");
  CheckRefused(Permute{{1, 2}}, {x}, "axes 1, 2 are not 1 to 3 in some order");
  CheckRefused(Permute{{1, 2, 2}}, {x}, "axes 1, 2, 2 are not 1 to 3 in some order");
  CheckRefused(WindowPartition{3}, {x}, "the image 4x5 is not filled by windows 3x3");
  CheckRefused(WindowMerge{.window = 2, .size = 4}, {x},
               "input 0 is 2x6x4x5 fp32 nchw, but 4x4 has 4 windows of 4 positions");
  CheckRefused(Roll{{1, 2, 3}}, {x}, "shift 1x2x3 has 3 numbers, but the image has 2 axes");
  CheckRefused(Tile{{1, 2, 3}}, {x}, "repeats 1x2x3 has 3 numbers, but the image has 2 axes");
  CheckRefused(Tile{{1, 0}}, {x}, "repeats=1x0 channels=1 must be between 1 and 2147483647");
  CheckRefused(Tile{.repeats = 1, .channels = -1}, {x},
               "repeats=1x1 channels=-1 must be between 1 and 2147483647");
}

}  // namespace
}  // namespace neap
