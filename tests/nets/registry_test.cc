#include "neap/nets/registry.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "neap/nets/residual/resnet.h"
#include "tests/nets/resolved.h"

namespace neap::nets {
namespace {

Resolved BuildResolved(std::string_view name, const NetOptions& options = {}) {
  auto net = Build(name, options);
  REQUIRE_MESSAGE(net.ok(), net.status().ToString());
  return Resolved(*net);
}

// The message of the error that `options` must cause.
std::string Refusal(std::string_view name, const NetOptions& options) {
  const auto net = Build(name, options);
  REQUIRE_FALSE(net.ok());
  CHECK(net.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(net.status().message());
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("every listed network builds, resolves and has its listed defaults") {
  std::set<std::string_view> names;
  for (const Network& network : Networks()) {
    CAPTURE(network.name);
    names.insert(network.name);
    CHECK_FALSE(network.description.empty());
    const Resolved net = BuildResolved(network.name);
    const TensorSpec& input = net.layer("input").spec.output;
    if (network.reads_tokens()) {
      CHECK(input.shape == Shape{1, network.image});
      CHECK(net.layer("lm_head").spec.index_count == network.classes);
      continue;
    }
    CHECK(input.shape ==
          SpatialShape(input.shape.n(), network.channels,
                       std::vector<int64_t>(static_cast<size_t>(network.axes), network.image)));
    CHECK(net.layer("loss").spec.output.shape.c() == network.classes);
  }
  CHECK(names.size() == Networks().size());
}

TEST_CASE("a network built by name carries that name") {
  for (const Network& network : Networks()) {
    const std::string_view last_word = network.name.substr(network.name.rfind('-') + 1);
    if (last_word == "resnet" || last_word == "densenet" || last_word == "cifar") continue;
    CHECK(Build(network.name, {})->options().name == std::string(network.name));
  }
}

TEST_CASE("networks built by name have their known parameter counts") {
  const std::pair<const char*, int64_t> counts[] = {{"lenet", 431'080},
                                                    {"alexnet", 62'378'344},
                                                    {"alexnet-torchvision", 61'100'840},
                                                    {"vgg13", 133'047'848},
                                                    {"vgg16", 138'357'544},
                                                    {"vgg19", 143'667'240},
                                                    {"resnet18", 11'689'512},
                                                    {"resnet34", 21'797'672},
                                                    {"resnet50", 25'557'032},
                                                    {"resnet101", 44'549'160},
                                                    {"resnet152", 60'192'808},
                                                    {"wide_resnet50_2", 68'883'240},
                                                    {"wide_resnet101_2", 126'886'696},
                                                    {"resnext50_32x4d", 25'028'904},
                                                    {"resnext101_32x8d", 88'791'336},
                                                    {"mobilenet_v2", 3'504'872},
                                                    {"mobilenet_v3_large", 5'483'032},
                                                    {"mobilenet_v3_small", 2'542'856},
                                                    {"efficientnet_b0", 5'288'548},
                                                    {"efficientnet_b1", 7'794'184},
                                                    {"efficientnet_b2", 9'109'994},
                                                    {"efficientnet_b3", 12'233'232},
                                                    {"regnet_y_400mf", 4'344'144},
                                                    {"regnet_y_3_2gf", 19'436'338},
                                                    {"convnext_tiny", 28'589'128},
                                                    {"convnext_small", 50'223'688},
                                                    {"convnext_base", 88'591'464},
                                                    {"vit_s_16", 22'050'664},
                                                    {"vit_b_16", 86'567'656},
                                                    {"vit_l_16", 304'326'632},
                                                    {"swin_t", 28'288'354},
                                                    {"swin_s", 49'606'258},
                                                    {"swin_b", 87'768'224},
                                                    {"gpt2", 124'439'808},
                                                    {"resnet20", 272'474},
                                                    {"googlenet", 6'624'904},
                                                    {"inception_v3", 23'834'568},
                                                    {"inception_v4", 42'679'816},
                                                    {"densenet121", 7'978'856},
                                                    {"densenet169", 14'149'480},
                                                    {"densenet201", 20'013'928},
                                                    {"densenet264", 33'337'704},
                                                    {"densenet-cifar", 1'019'722},
                                                    {"densenet-bc-cifar", 769'162},
                                                    {"fcn8s", 134'489'759},
                                                    {"unet", 31'030'658},
                                                    {"unet-bn", 31'037'698},
                                                    {"unet-resnet18", 14'331'109},
                                                    {"unet-resnet34", 24'439'269},
                                                    {"unet-resnet50", 32'524'005},
                                                    {"unet-resnet101", 51'516'133},
                                                    {"fpn-resnet18", 13'049'813},
                                                    {"fpn-resnet34", 23'157'973},
                                                    {"fpn-resnet50", 26'118'613},
                                                    {"fpn-resnet101", 45'110'741},
                                                    {"deeplabv3plus-resnet18", 12'334'437},
                                                    {"deeplabv3plus-resnet34", 22'442'597},
                                                    {"deeplabv3plus-resnet50", 26'682'725},
                                                    {"deeplabv3plus-resnet101", 45'674'853},
                                                    {"deeplabv3_resnet50", 39'638'869},
                                                    {"deeplabv3_resnet101", 58'630'997},
                                                    {"fcn_resnet50", 32'957'013},
                                                    {"fcn_resnet101", 51'949'141},
                                                    {"nnunet2d", 46'324'558},
                                                    {"nnunet3d", 31'195'594},
                                                    {"resenc-unet-m", 102'349'770},
                                                    {"resenc-unet-l", 102'349'770},
                                                    {"resenc-unet-xl", 102'349'770},
                                                    {"unet3d", 31'190'243},
                                                    {"ddpm-cifar10", 35'746'307},
                                                    {"ddpm-256", 113'673'219}};
  for (const auto& [network, count] : counts) {
    const std::string name = network;
    CAPTURE(name);
    CHECK(ParameterCount(BuildResolved(name).graph()) == count);
  }
}

TEST_CASE("options override a network's defaults") {
  const Resolved net = BuildResolved(
      "resnet18",
      {.batch = 3, .image = 64, .channels = 1, .classes = 7, .layout = Layout::kChannelsLast});
  CHECK(net.shape("input") == "3x1x64x64");
  CHECK(net.shape("loss") == "3x7x1x1");
  CHECK(net.layer("fc").spec.output.layout == Layout::kChannelsLast);
  CHECK(net.graph().options.batch == 3);
}

TEST_CASE("the image of a network of tokens is their number, and the classes its vocabulary") {
  const Resolved net = BuildResolved("gpt2", {.batch = 3, .image = 64, .classes = 256});
  CHECK(net.shape("input") == "3x64");
  CHECK(net.shape("wte") == "3x768x64");
  CHECK(net.layer("lm_head").spec.index_count == 256);
  CHECK(Refusal("gpt2", {.channels = 3}) == "network 'gpt2' takes no channels");
  CHECK(BuildResolved("gpt2", {.dropout = 0.1F}).count("dropout") == 25);
  CHECK(BuildResolved("gpt2-xl", {.depth = 2}).count("attention") == 2);
}

TEST_CASE("resnet takes blocks and resnet-cifar takes a depth of 6n + 2") {
  CHECK(Build("resnet", {.blocks = {{3, 4, 23, 3}}})->options().name == "resnet101");
  CHECK(Build("resnet-cifar", {.depth = 8})->options().name == "resnet8");
  CHECK(Build("resnet-cifar", {.depth = 1202})->options().name == "resnet1202");
}

TEST_CASE("resnet takes a depth of SuperNeurons' rule, but not with blocks") {
  CHECK(Build("resnet", {.depth = 137})->options().name == "resnet137");
  CHECK(Build("resnet", {.depth = 1919})->options().name == "resnet1919");
  CHECK(Contains(Refusal("resnet", {.depth = 134}), "depth must be 3n + 134 with n >= 1 (137, "));
  CHECK(Contains(Refusal("resnet", {.depth = 151}), "not 151"));
  CHECK(Contains(Refusal("resnet", {.depth = 137, .blocks = {{1, 1, 1, 1}}}), "exclude"));
}

TEST_CASE("densenets without a number in their name take a growth rate, blocks or a depth") {
  CHECK(BuildResolved("densenet", {.blocks = {{1, 1, 1, 1}}, .growth_rate = 8})
            .shape("features.denseblock1.cat") == "1x72x56x56");
  CHECK(BuildResolved("densenet-cifar", {.depth = 7, .growth_rate = 8})
            .shape("features.denseblock1.cat") == "1x24x32x32");
  CHECK(BuildResolved("densenet-bc-cifar", {.depth = 10, .growth_rate = 8})
            .shape("features.denseblock1.cat") == "1x24x32x32");
  CHECK(BuildResolved("densenet", {.depth = 201}).graph().options.name == "densenet201");
  CHECK(BuildResolved("densenet", {.depth = 47, .growth_rate = 8})
            .shape("features.denseblock3.cat") == "1x84x14x14");
  CHECK(Contains(Refusal("densenet", {.depth = 120}), "depth must be 2n + 43"));
  CHECK(Contains(Refusal("densenet", {.depth = 121, .blocks = {{1, 1, 1, 1}}}), "exclude"));
  CHECK(Contains(Refusal("densenet121", {.growth_rate = 8}), "takes no growth-rate"));
  CHECK(Contains(Refusal("densenet-cifar", {.depth = 41}), "depth must be 3n + 4"));
  CHECK(Contains(Refusal("densenet-bc-cifar", {.depth = 4}), "depth must be 6n + 4"));
  CHECK(Contains(Refusal("densenet", {.growth_rate = 513}), "growth-rate must be between 1 and"));
  CHECK(Contains(Refusal("densenet", {.blocks = {{1, 513, 1, 1}}}), "blocks must be between"));
  CHECK(Contains(Refusal("densenet-cifar", {.batch = 1 << 20}), "batch x channels"));
}

TEST_CASE("an unknown name is answered with the closest known ones") {
  const absl::Status status = Build("resnet-50", {}).status();
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(
      Contains(std::string(status.message()), "unknown network 'resnet-50'; closest: resnet50, "));
  CHECK(Contains(Build("AlexNet", {}).status().ToString(), "closest: alexnet, "));
  CHECK(Contains(Build("vgg-91", {}).status().ToString(), "vgg19"));
  CHECK(Build("", {}).status().code() == absl::StatusCode::kNotFound);
  CHECK(Build(std::string(1'000'000, 'x'), {}).status().message().size() < 200);
}

TEST_CASE("an option that a network does not have is refused by name") {
  CHECK(Contains(Refusal("vgg16", {.depth = 19}), "'vgg16' takes no depth"));
  CHECK(Contains(Refusal("resnet50", {.aux_logits = true}), "'resnet50' takes no aux-logits"));
  CHECK(Contains(Refusal("googlenet", {.image = 62, .aux_logits = true}),
                 "image must be at least 63 with aux-logits, not 62"));
  CHECK(Contains(Refusal("inception_v3", {.image = 298, .aux_logits = true}), "at least 299"));
  CHECK(Contains(Refusal("resnet20", {.depth = 26}), "'resnet20' takes no depth"));
  CHECK(Contains(Refusal("resnet50", {.blocks = {{1, 1, 1, 1}}}), "'resnet50' takes no blocks"));
}

TEST_CASE("options out of range are refused by name") {
  for (const int64_t bad : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max()}) {
    CAPTURE(bad);
    CHECK(Contains(Refusal("resnet50", {.batch = bad}), "batch must be between 1 and "));
    CHECK(Contains(Refusal("resnet50", {.image = bad}), "image must be between 1 and "));
    CHECK(Contains(Refusal("resnet50", {.channels = bad}), "channels must be between 1 and "));
    CHECK(Contains(Refusal("resnet50", {.classes = bad}), "classes must be between 1 and "));
    CHECK(
        Contains(Refusal("resnet", {.blocks = {{1, bad, 1, 1}}}), "blocks must be between 1 and "));
    CHECK(Contains(Refusal("resnet-cifar", {.depth = bad}), "depth must be between 1 and "));
  }
  CHECK(Contains(Refusal("resnet-cifar", {.depth = 2}), "depth must be 6n + 2"));
  CHECK(Contains(Refusal("resnet-cifar", {.depth = 21}), "depth must be 6n + 2"));
  CHECK(Contains(Refusal("resnet50", {.dtype = DType::kInt32}), "floating-point dtype, not int32"));
}

TEST_CASE("images that a decoder cannot halve as often as its encoder does are refused") {
  struct Row {
    const char* name;
    int64_t unit;
  };
  for (const Row& row : {Row{"unet-resnet34", 32}, Row{"fpn-resnet18", 32},
                         Row{"deeplabv3plus-resnet18", 16}, Row{"unet", 16}}) {
    CAPTURE(row.name);
    BuildResolved(row.name, {.image = 3 * row.unit});
    CHECK(Refusal(row.name, {.image = 3 * row.unit + 1}) ==
          absl::StrCat("image must be a multiple of ", row.unit, ", not ", 3 * row.unit + 1));
  }
}

TEST_CASE("options that are too large only together are refused") {
  CHECK(Contains(Refusal("resnet50", {.batch = 1 << 20, .image = 1 << 14}), "batch x channels"));
}

}  // namespace
}  // namespace neap::nets
