#include "neap/layers/cuda/conv/image_parts.h"

#include <doctest/doctest.h>

#include "neap/core/base/units.h"
#include "neap/memory/engines/engine_table.h"

namespace neap::cuda {
namespace {

TEST_CASE("a number of images with a good divisor is split by it") {
  CHECK(ImageParts(128, 256, 256) == 128);
  CHECK(ImageParts(4096, 256, 256) == 128);
  CHECK(ImageParts(128, 2048, 512) == 8);
  CHECK(ImageParts(32, 64, 64) == 32);  // one image per part
  CHECK(ImageParts(1, 64, 64) == 1);
}

TEST_CASE("a number of images without a good divisor is split nearly evenly") {
  CHECK(ImageParts(257, 256, 256) == 86);
  CHECK(ImageParts(127, 2048, 512) == 6);
}

TEST_CASE("whatever the number of images, the parts fill the GPU and fit strict's workspace") {
  for (const auto& [in_features, out_features] : {std::pair<int64_t, int64_t>{64, 64},
                                                  {64, 256},
                                                  {256, 128},
                                                  {1024, 512},
                                                  {2048, 512},
                                                  {1024, 2048},
                                                  {4096, 4096}}) {
    const int64_t in = in_features, out = out_features;
    const int64_t tiles = ((in + kTile - 1) / kTile) * ((out + kTile - 1) / kTile);
    for (int64_t images = 1; images <= 3000; ++images) {
      const int64_t parts = ImageParts(images, in, out);
      CAPTURE(images);
      CAPTURE(in);
      CAPTURE(out);
      REQUIRE((parts == images || parts * tiles >= kWantedTiles));
      REQUIRE(parts <= images);
      REQUIRE((parts == 1 || parts * in * out * 4 <= kStrictWorkspaceBytes));
    }
  }
}

}  // namespace
}  // namespace neap::cuda
