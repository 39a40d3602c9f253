#include "neap/nets/mobile/inverted_residual.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/join.h"
#include "neap/layers/multiply.h"
#include "neap/layers/pooling.h"

namespace neap::nets {

int64_t MultipleOf8(double channels) {
  const int64_t nearest = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

Convolution UnitConvolution(int64_t kernel, int64_t out_channels, int64_t stride, int64_t groups) {
  return {.out_channels = out_channels,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .groups = groups,
          .bias = false};
}

MobileTrunk::MobileTrunk(Graph& net, const BatchNorm& norm, std::string x, int64_t channels)
    : net_(net), norm_(norm), x_(std::move(x)), channels_(channels) {}

void MobileTrunk::AddLinear(const std::string& convolution_name, const std::string& norm_name,
                            const Convolution& convolution) {
  x_ = net_.Add(convolution_name, convolution, {x_});
  x_ = net_.Add(norm_name, norm_, {x_});
  channels_ = convolution.out_channels;
}

void MobileTrunk::AddUnit(const std::string& name, const Convolution& convolution,
                          const std::optional<Layer>& activation) {
  AddLinear(name + ".0", name + ".1", convolution);
  if (activation.has_value()) AddActivation(name + ".2", *activation);
}

void MobileTrunk::AddActivation(const std::string& name, const Layer& activation) {
  x_ = net_.Add(name, activation, {x_});
}

void MobileTrunk::AddSqueezeExcitation(const std::string& name, const SqueezeExcitation& squeeze) {
  std::string y = net_.Add(name + ".avgpool", GlobalAveragePool{}, {x_});
  y = net_.Add(name + ".fc1", Convolution{.out_channels = squeeze.channels}, {y});
  y = net_.Add(name + ".activation", squeeze.activation, {y});
  y = net_.Add(name + ".fc2", Convolution{.out_channels = channels_}, {y});
  y = net_.Add(name + ".scale_activation", squeeze.gate, {y});
  x_ = net_.Add(name + ".mul", Multiply{}, {x_, y});
}

void MobileTrunk::AddBlock(const std::string& name, const InvertedResidual& block) {
  const std::string input = x_;
  const bool has_shortcut = block.stride == 1 && channels_ == block.out_channels;
  int index = 0;  // of torchvision's nn.Sequential
  const auto part = [&] { return absl::StrCat(name, ".block.", index++); };
  if (block.expanded != channels_)
    AddUnit(part(), UnitConvolution(1, block.expanded), block.activation);
  AddUnit(part(), UnitConvolution(block.kernel, block.expanded, block.stride, block.expanded),
          block.activation);
  if (block.squeeze.has_value()) AddSqueezeExcitation(part(), *block.squeeze);
  AddUnit(part(), UnitConvolution(1, block.out_channels), std::nullopt);
  if (has_shortcut) AddShortcut(name + ".add", input);
}

void MobileTrunk::AddShortcut(const std::string& name, const std::string& from) {
  x_ = net_.Add(name, Add{}, {x_, from});
}

}  // namespace neap::nets
