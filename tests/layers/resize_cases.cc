// Cases of layers that give images other extents: interpolation, adaptive average pooling and
// shuffles of pixels.
#include <utility>
#include <vector>

#include "neap/layers/pooling.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "tests/layers/case_list.h"

namespace neap::testing {

void CaseList::AddResize(const Resize& resize, const Shape& shape) {
  Add("resize " + resize.Parameters(), resize, {shape});
}

void CaseList::AddAdaptive(const Extents& size, const Shape& shape) {
  Add("adaptive_average_pool to " + Text(size), AdaptiveAveragePool{size}, {shape});
}

void CaseList::AddPixelShuffles(int64_t factor, const Shape& large) {
  for (const bool blocks_first : {false, true}) {
    const PixelUnshuffle unshuffle = {factor, blocks_first};
    Add("pixel_unshuffle " + unshuffle.Parameters(), unshuffle, {large});
    const Shape small = unshuffle.Specify({.inputs = {{.shape = large}}})->output.shape;
    const PixelShuffle shuffle = {factor, blocks_first};
    Add("pixel_shuffle " + shuffle.Parameters(), shuffle, {small});
  }
}

void CaseList::AddInexactScales(Resize::Mode mode) {
  using Coordinates = Resize::Coordinates;
  constexpr double kThird = 1.0 / 3, kMore = 4.0 / 3;
  for (const Coordinates coordinates : {Coordinates::kHalfPixel, Coordinates::kAsymmetric}) {
    const auto add = [&](std::vector<double> scales, const Shape& shape) {
      AddResize({.scales = std::move(scales), .mode = mode, .coordinates = coordinates}, shape);
    };
    add({0.7}, {2, 3, 20, 11});
    add({kMore, kThird}, {1, 16, 9, 10});
    add({0.29, 1.15}, {1, 2, 100, 20});  // extents of which are rounded
  }
}

void CaseList::Resizes() {
  using Mode = Resize::Mode;
  using Coordinates = Resize::Coordinates;
  using Rounding = Resize::Rounding;
  for (const Mode mode : {Mode::kNearest, Mode::kLinear, Mode::kCubic}) {
    for (const Coordinates coordinates :
         {Coordinates::kHalfPixel, Coordinates::kAlignCorners, Coordinates::kAsymmetric}) {
      const auto add = [&](const Extents& sizes, const Shape& shape) {
        AddResize({.sizes = sizes, .mode = mode, .coordinates = coordinates}, shape);
      };
      add({8, 10}, {2, 3, 4, 5});  // doubled
      add({3, 17}, {2, 16, 7, 6});
      add({4, 1}, {1, 2, 1, 9});
    }
    AddResize({.scales = {2}, .mode = mode}, {2, 16, 4, 6});  // vectors, whatever the type
    AddResize({.scales = {1.5, 0.5}, .mode = mode}, {3, 5, 5, 7});
    AddInexactScales(mode);
    AddResize({.scales = {1, 5}, .mode = mode}, {1, 8, 3, 4});  // one axis stays, long ranges
    AddResize({.sizes = 2, .mode = mode}, {1, 1, 1, 1});
  }
  for (const Rounding rounding : {Rounding::kFloor, Rounding::kCeil, Rounding::kPreferFloor}) {
    for (const Coordinates coordinates : {Coordinates::kHalfPixel, Coordinates::kAsymmetric}) {
      AddResize({.sizes = Extents{6, 4}, .coordinates = coordinates, .rounding = rounding},
                {2, 3, 4, 9});
      AddResize({.scales = {0.7, 4.0 / 3}, .coordinates = coordinates, .rounding = rounding},
                {1, 3, 30, 12});
    }
  }
  AddResize({.sizes = 12, .mode = Mode::kCubic, .cubic_coefficient = -0.5F}, {1, 3, 5, 5});
  // Channels in parts, of 128 bytes and more.
  AddResize({.scales = {2}, .mode = Mode::kLinear}, {1, 128, 3, 3});
  AddResize({.scales = {2}, .mode = Mode::kLinear}, {2, 144, 2, 3});
  AddResize({.scales = {2}, .mode = Mode::kLinear}, {2, 74, 3, 2});
  AddResize({.scales = {2}, .mode = Mode::kLinear}, {1, 2, 20, 20});  // several blocks
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    AddResize({.sizes = Extent(1, 12),
               .mode = static_cast<Mode>(dice_.Between(0, 2)),
               .coordinates = static_cast<Coordinates>(dice_.Between(0, 2)),
               .rounding = static_cast<Rounding>(dice_.Between(0, 3))},
              RandomShape());
  }
}

void CaseList::AdaptivePools() {
  AddAdaptive({3, 4}, {2, 3, 7, 9});
  AddAdaptive({2, 2}, {2, 16, 6, 8});  // windows of one size
  AddAdaptive({5, 7}, {1, 8, 3, 4});   // more windows than pixels
  AddAdaptive({1, 3}, {2, 40, 17, 5});
  for (int i = 0; i < kRandomCasesPerLayer; ++i) {
    const int64_t h = dice_.Between(1, 10);
    AddAdaptive({h, dice_.Between(h == 1 ? 2 : 1, 10)}, RandomShape());
  }
}

void CaseList::PixelShuffles() {
  AddPixelShuffles(2, {2, 3, 4, 6});
  AddPixelShuffles(2, {2, 16, 6, 4});  // vectors, whatever the type
  AddPixelShuffles(3, {1, 2, 3, 9});
  AddPixelShuffles(1, {2, 3, 2, 2});
  AddPixelShuffles(4, {1, 1, 4, 4});
}

void CaseList::ResizedSequences() {
  using Mode = Resize::Mode;
  for (const Mode mode : {Mode::kNearest, Mode::kLinear, Mode::kCubic}) {
    AddResize({.scales = {2}, .mode = mode}, {2, 8, 9});
    AddResize({.sizes = Extents::Of({7}), .mode = mode}, {2, 3, 19});
    AddResize({.scales = {0.7}, .mode = mode}, {2, 3, 20});
  }
  AddAdaptive(Extents::Of({4}), {2, 6, 19});
  AddPixelShuffles(3, {2, 4, 12});
}

void CaseList::ResizedVolumes() {
  using Mode = Resize::Mode;
  for (const Mode mode : {Mode::kNearest, Mode::kLinear, Mode::kCubic}) {
    AddResize({.scales = {2}, .mode = mode}, {2, 3, 2, 3, 4});
    AddResize({.scales = {2}, .mode = mode}, {1, 16, 3, 2, 3});  // vectors, whatever the type
    AddResize({.scales = {1, 2, 2}, .mode = mode}, {2, 4, 3, 2, 3});
    AddResize({.sizes = Extents{3, 2, 7}, .mode = mode}, {1, 3, 5, 4, 3});
    AddResize({.scales = {0.7, 4.0 / 3, 1.0 / 3}, .mode = mode}, {1, 3, 10, 3, 7});
  }
  AddResize({.sizes = 5, .mode = Mode::kLinear, .coordinates = Resize::Coordinates::kAlignCorners},
            {1, 8, 3, 2, 4});
  AddAdaptive({2, 3, 1}, {2, 4, 5, 4, 3});
  AddAdaptive({4, 4, 4}, {1, 8, 6, 6, 5});
  AddPixelShuffles(2, {2, 3, 4, 2, 6});
}

}  // namespace neap::testing
