// How the axes of ONNX's tensors are those of layers.
#include "neap/nets/onnx/axes/arrangement.h"

#include <doctest/doctest.h>

#include <vector>

namespace neap::testing {
namespace {

using nets::Arrangement;
using nets::Factors;
using nets::Rearrange;
using nets::Rearrangement;
using Extents64 = std::vector<int64_t>;

TEST_CASE("the patches of an image become tokens, and those the heads of an attention") {
  const Arrangement images = Arrangement::OfLayer({1, 768, 14, 14});
  const Arrangement tokens = images.Reshaped({1, 768, 196})->Transposed({0, 2, 1});
  CHECK(tokens.dims() == Extents64{1, 196, 768});
  CHECK(tokens.ToString() == "[N] [S1, S2] [C]");
  CHECK(tokens.IsWhole(2, 1));
  const Arrangement heads = tokens.Reshaped({1, 196, 12, 64})->Transposed({0, 2, 1, 3});
  CHECK(heads.ToString() == "[N] [C 12 of 768] [S1, S2] [C 64 of 768]");
  CHECK(*heads.Transposed({0, 2, 1, 3}).Reshaped({1, 196, 768}) == tokens);
  CHECK_FALSE(tokens.IsInOrder());
  CHECK(images.Reshaped({1, 768 * 196})->IsFlat());
}

TEST_CASE("a batch of one stays where it is, and is never divided") {
  const Arrangement qkv = Arrangement::ChannelsLast({1, 12, 5});
  const Arrangement parts = qkv.Reshaped({1, 5, 3, 2, 2})->Transposed({2, 0, 3, 1, 4});
  CHECK(parts.ToString() == "[C 3 of 12] [N] [C 2 of 12] [S1] [C 2 of 12]");
  CHECK_FALSE(Arrangement::OfLayer({4, 6, 5}).Reshaped({2, 12, 5}).has_value());
  CHECK(Arrangement::OfLayer({4, 6, 5}).Reshaped({24, 5})->ToString() == "[N, C] [S1]");
  CHECK_FALSE(Arrangement::OfLayer({1, 6, 5}).Reshaped({1, 4, -1}).has_value());
}

TEST_CASE("layers move elements only where the wanted axes are in another order") {
  const Arrangement tokens =
      Arrangement::OfLayer({1, 6, 4, 5}).Reshaped({1, 6, 20})->Transposed({0, 2, 1});
  const std::vector<Factors>& axes = tokens.axes();
  const Rearrangement same = *Rearrange(tokens, {axes[2], axes[1]}, 4);
  CHECK(same.divided.empty());
  CHECK(same.order.empty());
  CHECK(same.layer == Extents64{6, 20});
  CHECK(same.arrangement == Arrangement::ChannelsLast({1, 6, 20}));
  const Rearrangement moved = *Rearrange(tokens, {axes[1], axes[2]}, 4);
  CHECK(moved.divided == Extents64{6, 20});
  CHECK(moved.order == Extents64{2, 1});
  CHECK(moved.layer.empty());
  CHECK(moved.arrangement == Arrangement::OfLayer({1, 20, 6}));
}

TEST_CASE("a permutation of more axes than a layer has is none") {
  const Arrangement windows = Arrangement::ChannelsLast({1, 6, 4, 6})
                                  .Reshaped({1, 2, 2, 3, 2, 6})
                                  ->Transposed({0, 1, 3, 2, 4, 5});
  CHECK(windows.dims() == Extents64{1, 2, 3, 2, 2, 6});
  const std::vector<Factors>& axes = windows.axes();
  const auto joined = [](Factors a, const Factors& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const std::vector<Factors> heads = {joined(axes[1], joined(axes[2], axes[5])),
                                      joined(axes[3], axes[4])};
  CHECK_FALSE(Rearrange(windows, heads, 4).has_value());
  CHECK(Rearrange(windows, heads, 5).has_value());
}

}  // namespace
}  // namespace neap::testing
