#include "neap/nets/segmentation/resnet_decoders.h"

#include <doctest/doctest.h>

#include "neap/layers/convolution.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

int64_t OfOneClass(Graph (*build)(const ResNetDecoderOptions&), const ResNetVariant& encoder) {
  return Parameters(build({.encoder = encoder, .image = 64, .classes = 1}));
}

TEST_CASE("decoders on ResNets have the package's numbers of parameters for one class") {
  CHECK(OfOneClass(ResNetUNet, kResNet18) == 14'328'209);
  CHECK(OfOneClass(ResNetUNet, kResNet34) == 24'436'369);
  CHECK(OfOneClass(ResNetUNet, kResNet50) == 32'521'105);
  CHECK(OfOneClass(ResNetUNet, kResNet101) == 51'513'233);
  CHECK(OfOneClass(ResNetFpn, kResNet18) == 13'047'233);
  CHECK(OfOneClass(ResNetFpn, kResNet34) == 23'155'393);
  CHECK(OfOneClass(ResNetFpn, kResNet50) == 26'116'033);
  CHECK(OfOneClass(ResNetFpn, kResNet101) == 45'108'161);
  CHECK(OfOneClass(DeepLabV3Plus, kResNet18) == 12'329'297);
  CHECK(OfOneClass(DeepLabV3Plus, kResNet34) == 22'437'457);
  CHECK(OfOneClass(DeepLabV3Plus, kResNet50) == 26'677'585);
  CHECK(OfOneClass(DeepLabV3Plus, kResNet101) == 45'669'713);
}

TEST_CASE("a U-Net on a ResNet joins the encoder's maps and comes back to the image's size") {
  const Resolved net(ResNetUNet({.encoder = kResNet50, .image = 64, .classes = 5}));
  CHECK(net.shape("encoder.layer4.2.relu3") == "2x2048x2x2");
  CHECK(net.shape("decoder.blocks.0.cat") == "2x3072x4x4");
  CHECK(net.shape("decoder.blocks.3.cat") == "2x128x32x32");
  CHECK(net.shape("decoder.blocks.4.conv2.2") == "2x16x64x64");
  CHECK(net.shape("loss") == "2x5x64x64");
  CHECK(net.shape("labels") == "2x64x64");
  const auto keys = net.keys();
  CHECK(keys.size() == (53 + 10) * 5 + 2);
  for (const char* key : {"encoder.conv1.weight", "encoder.layer1.0.downsample.1.running_var",
                          "decoder.blocks.0.conv1.0.weight", "decoder.blocks.4.conv2.1.bias",
                          "segmentation_head.0.bias"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
}

TEST_CASE("an FPN on a ResNet sums four levels at a quarter of the image's size") {
  const Resolved net(ResNetFpn({.encoder = kResNet18, .image = 96, .classes = 5}));
  CHECK(net.shape("decoder.p5") == "2x256x3x3");
  CHECK(net.shape("decoder.p2.add") == "2x256x24x24");
  CHECK(net.shape("decoder.seg_blocks.0.block.0.up") == "2x128x6x6");
  CHECK(net.shape("decoder.seg_blocks.0.block.2.up") == "2x128x24x24");
  CHECK(net.shape("decoder.seg_blocks.3.block.0.block.2") == "2x128x24x24");
  CHECK(net.shape("loss") == "2x5x96x96");
  const auto keys = net.keys();
  CHECK(keys.size() == 20 * 5 + 4 * 2 + 7 * 3 + 2);
  for (const char* key :
       {"decoder.p5.weight", "decoder.p2.skip_conv.bias",
        "decoder.seg_blocks.0.block.2.block.0.weight", "decoder.seg_blocks.2.block.0.block.1.bias",
        "decoder.seg_blocks.3.block.0.block.0.weight", "segmentation_head.0.weight"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
}

TEST_CASE("DeepLabV3+ keeps a sixteenth of the image's size by a dilation of layer4") {
  const Resolved net(DeepLabV3Plus({.encoder = kResNet34, .image = 80, .classes = 5}));
  CHECK(net.shape("encoder.layer4.2.relu2") == "2x512x5x5");
  const auto dilation = [&](const std::string& layer) {
    return net.layer(layer).layer.As<Convolution>()->dilation;
  };
  CHECK(dilation("encoder.layer3.0.conv1") == Extents(1));
  CHECK(dilation("encoder.layer4.0.conv1") == Extents(2));
  CHECK(dilation("encoder.layer4.2.conv2") == Extents(2));
  CHECK(net.shape("decoder.aspp.0.convs.4.0") == "2x512x1x1");
  CHECK(net.shape("decoder.aspp.0.cat") == "2x1280x5x5");
  CHECK(net.shape("decoder.cat") == "2x304x20x20");
  CHECK(net.shape("loss") == "2x5x80x80");
  const auto keys = net.keys();
  CHECK(keys.size() == 36 * 5 + 6 * 5 + 3 + 2 * 6 + 5 + 2);
  for (const char* key :
       {"decoder.aspp.0.convs.0.0.weight", "decoder.aspp.0.convs.1.0.0.weight",
        "decoder.aspp.0.convs.3.0.1.weight", "decoder.aspp.0.convs.3.1.bias",
        "decoder.aspp.0.convs.4.1.weight", "decoder.aspp.0.project.1.running_mean",
        "decoder.aspp.1.0.weight", "decoder.aspp.1.1.weight", "decoder.aspp.2.weight",
        "decoder.block1.0.weight", "decoder.block2.0.1.weight", "decoder.block2.1.bias",
        "segmentation_head.0.bias"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
}

TEST_CASE("decoders on ResNets take images of a multiple of their coarsest map's stride") {
  CHECK_FALSE(Resolve(ResNetUNet({.image = 48}), Mode::kTraining).ok());
  CHECK_FALSE(Resolve(ResNetFpn({.image = 48}), Mode::kTraining).ok());
  CHECK(Resolve(DeepLabV3Plus({.image = 48}), Mode::kTraining).ok());
  CHECK_FALSE(Resolve(DeepLabV3Plus({.image = 40}), Mode::kTraining).ok());
}

}  // namespace
}  // namespace neap::nets
