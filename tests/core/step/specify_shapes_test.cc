// The declarations of layers that give the same elements other axes or places.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
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
}

}  // namespace
}  // namespace neap
