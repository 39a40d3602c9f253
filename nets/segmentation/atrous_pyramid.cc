#include "neap/nets/segmentation/atrous_pyramid.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/resize/resize.h"
#include "neap/nets/segmentation/sequential_unit.h"

namespace neap::nets {

std::string AddAtrousPyramid(Graph& net, const std::string& prefix, const AtrousPyramid& pyramid,
                             int64_t in_channels, const std::string& x) {
  const Convolution pointwise = {.out_channels = pyramid.out_channels, .bias = false};
  std::vector<std::string> branches;
  branches.push_back(AddSequentialUnit(net, prefix + "convs.0.", 0, pointwise, x));
  for (const int64_t dilation : pyramid.dilations) {
    const Convolution atrous = {.out_channels = pyramid.out_channels,
                                .kernel = 3,
                                .padding = dilation,
                                .dilation = dilation,
                                .bias = false};
    const std::string branch = absl::StrCat(prefix, "convs.", branches.size(), ".");
    branches.push_back(pyramid.separable ? AddSeparableUnit(net, branch, 0, in_channels, atrous, x)
                                         : AddSequentialUnit(net, branch, 0, atrous, x));
  }
  const std::string pooling = prefix + "convs.4.";
  std::string mean = net.Add(pooling + "0", GlobalAveragePool{}, {x});
  mean = AddSequentialUnit(net, pooling, 1, pointwise, mean);
  // Interpolation of one value, however stated, copies it.
  branches.push_back(net.Add(pooling + "copy", Resize{.sizes = pyramid.size}, {mean}));
  std::string y = net.Add(prefix + "cat", Concat{}, branches);
  y = AddSequentialUnit(net, prefix + "project.", 0, pointwise, y);
  return net.Add(prefix + "project.3", Dropout{.probability = pyramid.dropout}, {y});
}

}  // namespace neap::nets
