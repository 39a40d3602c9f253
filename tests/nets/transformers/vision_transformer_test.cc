#include "neap/nets/transformers/vision_transformer.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "neap/core/checkpoint/safetensors.h"
#include "neap/layers/attention/attention.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::nets {
namespace {

TEST_CASE("vision transformers have torchvision's numbers of parameters, and timm's for S") {
  CHECK(Parameters(VisionTransformer({.variant = kVitS16})) == 22'050'664);
  CHECK(Parameters(VisionTransformer({})) == 86'567'656);
  CHECK(Parameters(VisionTransformer({.variant = kVitL16})) == 304'326'632);
}

TEST_CASE("ViT-B/16 has a position for each patch and the class, and predicts from the class") {
  const Resolved net(VisionTransformer({.batch = 2}));
  CHECK(net.shape("conv_proj") == "2x768x14x14");
  CHECK(net.shape("positions") == "2x768x197");
  CHECK(net.shape("encoder.layers.encoder_layer_0.self_attention.in_proj") == "2x2304x197");
  CHECK(net.shape("encoder.ln") == "2x768x1");
  CHECK(net.shape("heads.head") == "2x1000x1x1");
  CHECK(*net.layer("encoder.layers.encoder_layer_11.self_attention").layer.As<Attention>() ==
        Attention{.heads = 12});
}

TEST_CASE("files of a vision transformer have torchvision's names and shapes") {
  const ScratchDirectory directory;
  const std::string path = directory.File("weights");
  const auto device = OpenCpu();
  const Graph net = VisionTransformer(
      {.variant = {"tiny", 1, 2, 8}, .image = 32, .classes = 3, .batch = 1, .channels = 1});
  Session session = Opened(net, *device);
  REQUIRE(session.SaveWeights(path).ok());
  const auto reader = SafetensorsReader::Open(path);
  REQUIRE(reader.ok());
  const std::string layer = "encoder.layers.encoder_layer_0.";
  std::map<std::string, std::vector<int64_t>> want = {
      {"class_token", {1, 1, 8}},
      {"conv_proj.weight", {8, 1, 16, 16}},
      {"conv_proj.bias", {8}},
      {"encoder.pos_embedding", {1, 5, 8}},
      {"encoder.ln.weight", {8}},
      {"encoder.ln.bias", {8}},
      {"heads.head.weight", {3, 8}},
      {"heads.head.bias", {3}},
      {layer + "ln_1.weight", {8}},
      {layer + "ln_1.bias", {8}},
      {layer + "self_attention.in_proj_weight", {24, 8}},
      {layer + "self_attention.in_proj_bias", {24}},
      {layer + "self_attention.out_proj.weight", {8, 8}},
      {layer + "self_attention.out_proj.bias", {8}},
      {layer + "ln_2.weight", {8}},
      {layer + "ln_2.bias", {8}},
      {layer + "mlp.0.weight", {32, 8}},
      {layer + "mlp.0.bias", {32}},
      {layer + "mlp.3.weight", {8, 32}},
      {layer + "mlp.3.bias", {8}},
  };
  for (const SafetensorsEntry& entry : reader->entries()) {
    CAPTURE(entry.name);
    REQUIRE(want.contains(entry.name));
    CHECK(entry.shape == want.at(entry.name));
    want.erase(entry.name);
  }
  CHECK(want.empty());
}

TEST_CASE("an image that is no whole number of patches is refused") {
  const auto net = Build("vit_b_16", {.image = 225});
  CHECK(net.status().message() == "image must be a multiple of 16, not 225");
  CHECK(Resolved(Build("vit_b_16", {.image = 384}).value()).shape("positions") == "1x768x577");
}

}  // namespace
}  // namespace neap::nets
