// The convolutions of GoogLeNet and Inception v3 and v4: each is followed by batch norm and a ReLU,
// layers called NAME.conv, NAME.bn and NAME.ACTIVATION.
//
//   const InceptionUnits units(net, "relu");
//   std::string x = units.Add("Conv2d_1a_3x3", ShrinkingUnit{32, 2}, net.Input({3, 299, 299}));
//   x = units.Add("Conv2d_2b_3x3", InceptionUnit{64, 3}, x);
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "neap/core/graph/graph.h"
#include "neap/core/step/window.h"
#include "neap/layers/convolution.h"

namespace neap::nets {

// A convolution that keeps the size.
struct InceptionUnit {
  int64_t out_channels = 0;
  Extents kernel = 1;
};
// A 3x3 convolution without padding, so that the image shrinks.
struct ShrinkingUnit {
  int64_t out_channels = 0;
  int64_t stride = 1;
};

class InceptionUnits {
 public:
  InceptionUnits(Graph& net, std::string activation)
      : net_(net), activation_(std::move(activation)) {}

  // Each returns the name of its last layer.
  std::string Add(const std::string& name, const InceptionUnit& unit, const std::string& x) const;
  std::string Add(const std::string& name, const ShrinkingUnit& unit, const std::string& x) const;
  // Any other convolution, which gets no bias.
  std::string Add(const std::string& name, Convolution convolution, const std::string& x) const;

 private:
  Graph& net_;
  std::string activation_;
};

}  // namespace neap::nets
