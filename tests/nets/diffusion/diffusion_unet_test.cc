#include "neap/nets/diffusion/diffusion_unet.h"

#include <doctest/doctest.h>

#include <cmath>

#include "neap/layers/convolution.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

TEST_CASE("diffusion U-Nets have the numbers of parameters of DDPM's networks") {
  CHECK(Parameters(DiffusionUNet({})) == 35'746'307);
  CHECK(Parameters(DiffusionUNet(DiffusionUNet256())) == 113'673'219);
}

TEST_CASE("a diffusion U-Net joins what every block of its encoder has computed") {
  const Resolved net(DiffusionUNet({.graph = {.batch = 2}}));
  CHECK(net.shape("timestep_embedding") == "2x128x1x1");
  CHECK(net.shape("time_embed.3") == "2x512x1x1");
  CHECK(net.shape("input_blocks.3.0.op") == "2x128x16x16");
  CHECK(net.shape("input_blocks.4.0.emb_layers.1") == "2x256x1x1");
  CHECK(net.shape("input_blocks.4.1.qkv") == "2x768x16x16");
  CHECK(net.shape("input_blocks.11.0.add") == "2x256x4x4");
  CHECK(net.shape("output_blocks.0.cat") == "2x512x4x4");
  CHECK(net.shape("output_blocks.2.1.conv") == "2x256x8x8");
  CHECK(net.shape("output_blocks.8.2.conv") == "2x256x32x32");
  CHECK(net.shape("output_blocks.9.cat") == "2x384x32x32");
  CHECK(net.shape("output_blocks.11.cat") == "2x256x32x32");
  CHECK(net.shape("out.2") == "2x3x32x32");
  CHECK(net.shape("targets") == "2x3x32x32");
  CHECK(net.count("attention") == 2 + 1 + 3);
  CHECK(net.count("dropout") == 8 + 2 + 12);
}

TEST_CASE("a diffusion U-Net has guided-diffusion's keys") {
  const auto keys = Resolved(DiffusionUNet({})).keys();
  CHECK(keys.size() == 4 + 2 + 22 * 10 + (1 + 12) * 2 + 6 * 6 + 3 * 2 + 3 * 2 + 4);
  for (const char* key :
       {"time_embed.2.bias", "input_blocks.0.0.weight", "input_blocks.1.0.in_layers.2.weight",
        "input_blocks.4.0.skip_connection.weight", "input_blocks.4.1.norm.bias",
        "middle_block.1.proj_out.weight", "output_blocks.11.0.out_layers.3.bias", "out.0.weight",
        "out.2.bias"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
}

TEST_CASE("the last convolutions of a diffusion U-Net begin at 0") {
  const Resolved net(DiffusionUNet({}));
  for (const char* const name :
       {"input_blocks.1.0.out_layers.3", "middle_block.1.proj_out", "out.2"})
    CHECK(net.layer(name).layer.As<Convolution>()->init.scale == 0);
}

TEST_CASE("a sinusoidal embedding has cosines, then sines, of ever slower turns") {
  const std::vector<float> embedding = SinusoidalEmbedding({0, 3}, 4);
  const double slow = 3 * std::pow(10000.0, -0.5);
  const std::vector<double> wanted = {
      1, 1, 0, 0, std::cos(3.0), std::cos(slow), std::sin(3.0), std::sin(slow)};
  REQUIRE(embedding.size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) CHECK(embedding[i] == doctest::Approx(wanted[i]));
}

}  // namespace
}  // namespace neap::nets
