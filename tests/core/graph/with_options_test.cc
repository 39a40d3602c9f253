#include "neap/core/graph/with_options.h"

#include <doctest/doctest.h>

#include "neap/layers/target_loss.h"
#include "neap/nets/residual/resnet.h"
#include "neap/nets/segmentation/unet.h"

namespace neap {
namespace {

void CheckSame(const Graph& a, const Graph& b) {
  CHECK(a.options() == b.options());
  REQUIRE(a.layers().size() == b.layers().size());
  for (size_t i = 0; i < a.layers().size(); ++i) {
    CHECK(a.layers()[i].name == b.layers()[i].name);
    CHECK(a.layers()[i].layer == b.layers()[i].layer);
    CHECK(a.layers()[i].inputs == b.layers()[i].inputs);
    CHECK(a.layers()[i].role == b.layers()[i].role);
  }
}

TEST_CASE("a network with other options is the one that is built with them") {
  const nets::CifarResNetOptions small = {.n = 1, .image = 8, .batch = 4};
  nets::CifarResNetOptions other = small;
  other.batch = 7;
  other.dtype = DType::kBf16;
  other.layout = Layout::kChannelsLast;
  const Graph wanted = nets::CifarResNet(other);
  CheckSame(WithOptions(nets::CifarResNet(small), wanted.options()), wanted);
}

TEST_CASE("labels of pixels keep their height and width") {
  const Graph wanted = nets::UNet({.image = 32, .batch = 6});
  CheckSame(WithOptions(nets::UNet({.image = 32, .batch = 2}), wanted.options()), wanted);
}

TEST_CASE("targets stay fp32 and take the layout") {
  const auto build = [](const GraphOptions& options) {
    Graph net(options);
    net.TargetLoss(net.Input({3, 4, 5}), MeanSquaredError{}, {3, 4, 5});
    return net;
  };
  const GraphOptions options = {.batch = 7, .dtype = DType::kBf16, .layout = Layout::kChannelsLast};
  CheckSame(WithOptions(build({.name = "network", .batch = 2}), options), build(options));
}

}  // namespace
}  // namespace neap
