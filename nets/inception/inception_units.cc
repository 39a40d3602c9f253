#include "neap/nets/inception/inception_units.h"

#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"

namespace neap::nets {

std::string InceptionUnits::Add(const std::string& name, Convolution convolution,
                                const std::string& x) const {
  convolution.bias = false;
  std::string y = net_.Add(name + ".conv", convolution, {x});
  y = net_.Add(name + ".bn", BatchNorm{.epsilon = 1e-3F}, {y});
  return net_.Add(name + "." + activation_, Relu{}, {y});
}

std::string InceptionUnits::Add(const std::string& name, const InceptionUnit& unit,
                                const std::string& x) const {
  return Add(name,
             Convolution{.out_channels = unit.out_channels,
                         .kernel = unit.kernel,
                         .padding = {unit.kernel.h() / 2, unit.kernel.w() / 2}},
             x);
}

std::string InceptionUnits::Add(const std::string& name, const ShrinkingUnit& unit,
                                const std::string& x) const {
  return Add(name,
             Convolution{.out_channels = unit.out_channels, .kernel = 3, .stride = unit.stride}, x);
}

}  // namespace neap::nets
