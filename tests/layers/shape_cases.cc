// Cases of layers that give the elements of images other places, or repeat them.
#include "absl/strings/str_cat.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"
#include "tests/layers/case_list.h"

namespace neap::testing {

void CaseList::AddShapeLayer(const Layer& layer, const Shape& shape) {
  Add(absl::StrCat(std::string(layer.type()), " ", layer.Parameters()), layer, {shape});
}

void CaseList::Reshapes() {
  const Shape image = {2, 6, 4, 5};
  for (const std::vector<int64_t>& to : {std::vector<int64_t>{0, -1},
                                         {0, 5, 4},
                                         {0, 2, 2, 5},
                                         {3, -1},
                                         {3, 2, 4, 5},
                                         {12, 10},
                                         {24, 5, 1},
                                         {-1, 1, 1},
                                         {1, -1},
                                         {0, 0, 0}})
    AddShapeLayer(Reshape{to}, image);
  AddShapeLayer(Reshape{{-1, 4, 8}}, {3, 16, 32});
  AddShapeLayer(Reshape{{8, 8, 8}}, {2, 16, 4, 4, 2});
  AddShapeLayer(Reshape{{4, 7}}, {2, 1, 28});
  AddShapeLayer(Reshape{{1, 12}}, {2, 12, 1, 1});
}

void CaseList::Permutes() {
  for (const Shape& shape : {Shape{2, 3, 5}, Shape{2, 16, 24}, Shape{1, 1, 7}})
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{1, 2}, {2, 1}})
      AddShapeLayer(Permute{axes}, shape);
  for (const std::vector<int64_t>& axes :
       {std::vector<int64_t>{1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}})
    AddShapeLayer(Permute{axes}, {2, 8, 4, 16});
  AddShapeLayer(Permute{{3, 1, 4, 2}}, {2, 3, 4, 5, 6});
  AddShapeLayer(Permute{{2, 1}}, {3, 37, 70});  // tiles of 32 x 32, of which the last are smaller
  AddShapeLayer(Permute{{3, 2, 1}}, {2, 33, 3, 65});
  AddShapeLayer(Permute{{2, 3, 1}}, {2, 40, 5, 16});
}

void CaseList::Windows() {
  for (const WindowPartition& layer : {WindowPartition{2}, WindowPartition{{4, 3}},
                                       WindowPartition{{1, 6}}, WindowPartition{{8, 6}}})
    AddShapeLayer(layer, {2, 8, 8, 6});
  AddShapeLayer(WindowPartition{3}, {2, 5, 9});
  AddShapeLayer(WindowPartition{{2, 1, 3}}, {2, 3, 4, 5, 6});
  AddShapeLayer(WindowMerge{.window = 2, .size = {4, 6}}, {2, 8, 6, 4});
  AddShapeLayer(WindowMerge{.window = 4, .size = 8}, {1, 3, 4, 16});
  AddShapeLayer(WindowMerge{.window = 3, .size = Extents::Of({9})}, {2, 5, 3, 3});
  AddShapeLayer(WindowMerge{.window = {2, 1, 3}, .size = {4, 5, 6}}, {2, 3, 20, 6});
}

void CaseList::Rolls() {
  for (const Roll& layer :
       {Roll{0}, Roll{1}, Roll{-3}, Roll{{4, 0}}, Roll{{0, -8}}, Roll{{100, -101}}})
    AddShapeLayer(layer, {2, 8, 7, 16});
  AddShapeLayer(Roll{2}, {2, 3, 5});
  AddShapeLayer(Roll{{1, -1, 2}}, {2, 4, 3, 5, 6});
}

void CaseList::Tiles() {
  for (const Tile& layer :
       {Tile{}, Tile{2}, Tile{{1, 3}}, Tile{{2, 1}}, Tile{1, 3}, Tile{{2, 3}, 2}})
    AddShapeLayer(layer, {2, 8, 3, 4});
  AddShapeLayer(Tile{.repeats = 5, .channels = 2}, {3, 3, 7});
  AddShapeLayer(Tile{.repeats = {2, 3, 2}, .channels = 2}, {2, 3, 2, 4, 3});
  AddShapeLayer(Tile{.repeats = {1, 5}}, {2, 16, 6, 1});  // spreads one element
  AddShapeLayer(Tile{.repeats = {4, 8}}, {2, 16, 1, 1});
  AddShapeLayer(Tile{.repeats = 1, .channels = 24}, {2, 1, 5, 8});
  AddShapeLayer(Tile{.repeats = {20, 17}}, {2, 5, 1, 1});  // blocks sum so many copies
  AddShapeLayer(Tile{.repeats = {16, 16}}, {2, 8, 2, 1});
}

}  // namespace neap::testing
