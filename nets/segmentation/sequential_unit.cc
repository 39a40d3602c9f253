#include "neap/nets/segmentation/sequential_unit.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"

namespace neap::nets {
namespace {

std::string AddNormAndRelu(Graph& net, const std::string& prefix, int first, std::string x) {
  x = net.Add(absl::StrCat(prefix, first), BatchNorm{}, {x});
  return net.Add(absl::StrCat(prefix, first + 1), Relu{}, {x});
}

}  // namespace

std::string AddSequentialUnit(Graph& net, const std::string& prefix, int first,
                              const Convolution& convolution, std::string x) {
  x = net.Add(absl::StrCat(prefix, first), convolution, {x});
  return AddNormAndRelu(net, prefix, first + 1, std::move(x));
}

std::string AddSeparableUnit(Graph& net, const std::string& prefix, int first, int64_t in_channels,
                             const Convolution& convolution, std::string x) {
  Convolution depthwise = convolution;
  depthwise.out_channels = depthwise.groups = in_channels;
  depthwise.bias = false;
  x = net.Add(absl::StrCat(prefix, first, ".0"), depthwise, {x});
  const Convolution pointwise = {.out_channels = convolution.out_channels, .bias = false};
  x = net.Add(absl::StrCat(prefix, first, ".1"), pointwise, {x});
  return AddNormAndRelu(net, prefix, first + 1, std::move(x));
}

}  // namespace neap::nets
