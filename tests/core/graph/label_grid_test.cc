#include "neap/core/graph/label_grid.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace neap {
namespace {

std::vector<int64_t> LabelsRead(const Shape& predictions, const Shape& labels) {
  const LabelGrid grid = LabelGridOf(predictions, labels).value();
  std::vector<int64_t> read;
  for (int64_t i = 0; i < predictions.n() * predictions.positions(); ++i)
    read.push_back(grid.LabelOf(i));
  return read;
}

// labels       0 1 2 3 | 4 5 6 7 8 9 10 11
// predictions   0   1  |  2   3    4    5
TEST_CASE("a position reads the label nearest to its centre") {
  CHECK(LabelsRead({1, 9, 4}, {1, 8}) == std::vector<int64_t>{1, 3, 5, 7});
  CHECK(LabelsRead({2, 9, 2}, {2, 6}) == std::vector<int64_t>{1, 4, 7, 10});
  CHECK(LabelsRead({1, 9, 2, 2}, {1, 2, 4}) == std::vector<int64_t>{1, 3, 5, 7});
  CHECK(LabelsRead({1, 9, 2, 2}, {1, 4, 2}) == std::vector<int64_t>{2, 3, 6, 7});
  CHECK(LabelsRead({2, 1, 2, 1, 2}, {2, 4, 3, 2}) ==
        std::vector<int64_t>{8, 9, 20, 21, 32, 33, 44, 45});
}

TEST_CASE("without more labels than positions, each reads its own") {
  const LabelGrid grid = LabelGridOf({2, 5, 3, 4}, {2, 3, 4}).value();
  CHECK_FALSE(grid.is_finer());
  for (const int64_t i : {0, 5, 11, 12, 23}) CHECK(grid.LabelOf(i) == i);
  CHECK(LabelGridOf({8, 5, 16, 16}, {8, 64, 32})->stride == LabelGrid::Axes{1, 4, 2});
  CHECK(LabelGridOf({8, 5, 1, 1}, {8})->LabelOf(7) == 7);
}

TEST_CASE("labels of other shapes are no grid") {
  CHECK_FALSE(LabelGridOf({2, 5, 4, 4}, {2, 6, 4}).has_value());     // no multiple
  CHECK_FALSE(LabelGridOf({2, 5, 4, 4}, {2, 2, 4}).has_value());     // coarser
  CHECK_FALSE(LabelGridOf({2, 5, 4, 4}, {3, 4, 4}).has_value());     // of another batch
  CHECK_FALSE(LabelGridOf({2, 5, 4, 4}, {2, 4, 4, 4}).has_value());  // of a volume
  CHECK_FALSE(LabelGridOf({2, 5, 1, 1}, {2, 4, 4}).has_value());     // one label is enough
}

}  // namespace
}  // namespace neap
