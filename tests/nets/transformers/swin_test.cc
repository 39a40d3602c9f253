#include "neap/nets/transformers/swin.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/checkpoint/safetensors.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/dropout.h"
#include "neap/nets/registry.h"
#include "tests/core/checkpoint/safetensors_files.h"
#include "tests/nets/resolved.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::nets {
namespace {

TEST_CASE("Swin transformers have torchvision's numbers of parameters and its keys") {
  const Resolved net(Swin({}));
  CHECK(ParameterCount(net.graph()) == 28'288'354);
  CHECK(Parameters(Swin({.variant = kSwinS})) == 49'606'258);
  CHECK(Parameters(Swin({.variant = kSwinB})) == 87'768'224);
  const auto keys = net.keys();
  CHECK(keys.size() == 173);
  for (const char* const key :
       {"features.0.0.weight", "features.0.2.bias", "features.1.0.norm1.weight",
        "features.1.0.attn.qkv.bias", "features.1.1.attn.relative_position_bias_table",
        "features.2.norm.weight", "features.2.reduction.weight", "features.5.5.attn.proj.weight",
        "features.7.1.mlp.0.weight", "features.7.1.mlp.3.bias", "norm.weight", "head.weight"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
  CHECK(keys.count("features.2.reduction.bias") == 0);
}

TEST_CASE("Swin-T shifts the windows of every second block, but not where there is one") {
  const Resolved net(Swin({.batch = 2}));
  CHECK(net.shape("features.0.2") == "2x96x56x56");
  CHECK(net.shape("features.1.0.attn.windows") == "2x96x64x49");
  CHECK(net.shape("features.1.1.mlp.0") == "2x384x56x56");
  CHECK(net.shape("features.2.reduction") == "2x192x28x28");
  CHECK(net.shape("features.5.5.mlp.add") == "2x384x14x14");
  CHECK(net.shape("features.7.1.attn") == "2x768x1x49");
  CHECK(net.count("roll") == 2 * (1 + 1 + 3));
  CHECK(net.count("zero_pad") == 0);
  const auto attention = [&](const std::string& block) {
    return *net.layer(block + ".attn").layer.As<Attention>();
  };
  const auto windows = [](int64_t heads, int64_t size, int64_t shift) {
    return Attention{.heads = heads,
                     .axes = 1,
                     .window_bias = WindowBias{.window = 7, .size = size, .shift = shift}};
  };
  CHECK(attention("features.1.0") == windows(3, 56, 0));
  CHECK(attention("features.1.1") == windows(3, 56, 3));
  CHECK(attention("features.5.5") == windows(12, 14, 3));
  CHECK(attention("features.7.1") == windows(24, 7, 0));
}

TEST_CASE("other images are padded to whole windows, and behind that cropped") {
  const Resolved net(Build("swin_t", {.image = 256}).value());
  CHECK(net.shape("features.1.1.attn.pad") == "1x96x70x70");
  CHECK(net.shape("features.1.1.attn.crop") == "1x96x64x64");
  CHECK(net.shape("features.7.0.attn.pad") == "1x768x14x14");
  CHECK(net.shape("features.7.1.mlp.add") == "1x768x8x8");
}

TEST_CASE("the rate of stochastic depth of a Swin grows from none to that of the last block") {
  const Resolved net(Swin({}));
  CHECK(net.count("stochastic_depth") == 2 * 11);  // of 12 blocks
  const auto rate = [&](const std::string& part) {
    return net.layer(part + ".stochastic_depth").layer.As<StochasticDepth>()->rate;
  };
  CHECK(rate("features.1.1.attn") == doctest::Approx(0.2 / 11));
  CHECK(rate("features.1.1.mlp") == doctest::Approx(0.2 / 11));
  CHECK(rate("features.7.1.mlp") == doctest::Approx(0.2));
}

constexpr int64_t kSwinViewed = 60, kSwinClasses = 5;

// 15 positions along each axis, which are padded, and after the stages 8, 4 and 2.
Graph TinySwin(Layout layout = Layout::kChannelsFirst) {
  return Swin({.variant = {"tiny", {2, 2, 1, 1}, {1, 2, 2, 4}, 4, 0},
               .image = kSwinViewed,
               .classes = kSwinClasses,
               .batch = 2,
               .layout = layout});
}

// The numbers between -0.5 and 0.5 that swin_values.py makes, too.
std::vector<float> Scattered(size_t count, size_t start) {
  std::vector<float> values;
  for (size_t k = 0; k < count; ++k) {
    const size_t number = (31 * k * k + 17 * k + 613 * start) % 1009;
    values.push_back(static_cast<float>(static_cast<double>(number) / 1009 - 0.5));
  }
  return values;
}

NamedValues ScatteredWeights(Session& session) {
  std::map<std::string, size_t> sizes;
  const std::vector<NamedTensor> begun = session.Weights().value();
  for (const NamedTensor& tensor : begun) sizes[tensor.name] = tensor.values.size();
  NamedValues weights;
  for (const auto& [name, size] : sizes) {
    std::vector<float>& values = weights[name] = Scattered(size, weights.size());
    const bool is_factor = name.ends_with("norm.weight") || name.ends_with("norm1.weight") ||
                           name.ends_with("norm2.weight") || name == "features.0.2.weight";
    for (float& value : values) value += is_factor ? 1 : 0;
  }
  return weights;
}

// Of a gradient: its product with other numbers, and its norm.
struct GradientRow {
  const char* name;
  float product, norm;
};

// Printed by swin_values.py.
constexpr float kSwinLogits[] = {-1.413449F, 1.158028F, -2.170185F, -0.344059F, -0.801624F,
                                 -3.061203F, 1.632064F, -0.869842F, -1.156889F, 0.871931F};
constexpr float kSwinLoss = 1.830361F;
constexpr GradientRow kSwinGradients[] = {
    {"features.0.0.weight", -0.0806464F, 2.2721F},
    {"features.1.0.attn.relative_position_bias_table", 0.00455302F, 0.0152171F},
    {"features.1.1.attn.qkv.weight", 0.12319F, 0.206324F},
    {"features.1.1.attn.relative_position_bias_table", -0.00383742F, 0.0163324F},
    {"features.2.norm.weight", -0.157646F, 0.604001F},
    {"features.2.reduction.weight", 1.13583F, 2.8567F},
    {"features.3.1.attn.proj.bias", 0.170055F, 0.259308F},
    {"features.3.1.attn.relative_position_bias_table", -0.00937408F, 0.0376887F},
    {"features.5.0.mlp.0.weight", 0.662193F, 1.40554F},
    {"features.7.0.attn.relative_position_bias_table", -0.00629821F, 0.0774122F},
    {"head.weight", -1.7776F, 2.99488F},
};

TEST_CASE("a small Swin has torchvision's logits and gradients, padded, shifted and not") {
  const auto device = OpenCpu();
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    CAPTURE(Name(layout));
    const TrainingOptions plain = {.optimizer = {.momentum = 0}, .learning_rate = {.base = 1}};
    Session session = Opened(TinySwin(layout), *device, {}, plain);
    const NamedValues weights = ScatteredWeights(session);
    REQUIRE(session.LoadWeights(weights).ok());
    Batch batch = {.images = Scattered(2 * 3 * kSwinViewed * kSwinViewed, 0), .labels = {1, 3}};
    for (float& pixel : batch.images) pixel *= 4;
    Prediction prediction;
    const auto evaluated = session.Evaluate(batch, &prediction);
    REQUIRE_MESSAGE(evaluated.ok(), evaluated.status().ToString());
    for (size_t i = 0; i < std::size(kSwinLogits); ++i)
      CHECK(prediction.logits[i] == doctest::Approx(kSwinLogits[i]).epsilon(1e-4));
    CHECK(*session.TrainStep(batch) == doctest::Approx(kSwinLoss).epsilon(1e-4));
    for (const GradientRow& row : kSwinGradients) {
      CAPTURE(row.name);
      const std::vector<float>& before = weights.at(row.name);
      const std::vector<float> after = *session.Values(row.name);
      const std::vector<float> others = Scattered(before.size(), 1);
      double product = 0, squares = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        const double gradient = static_cast<double>(before[i]) - static_cast<double>(after[i]);
        product += gradient * static_cast<double>(others[i]);
        squares += gradient * gradient;
      }
      CHECK(product == doctest::Approx(row.product).epsilon(1e-3));
      CHECK(std::sqrt(squares) == doctest::Approx(row.norm).epsilon(1e-3));
    }
  }
}

TEST_CASE("files of a Swin have torchvision's shapes, and its position indices are ignored") {
  const ScratchDirectory directory;
  const std::string own = directory.File("own"), other = directory.File("other");
  const auto device = OpenCpu();
  Session session = Opened(TinySwin(), *device);
  REQUIRE(session.SaveWeights(own).ok());
  const auto reader = SafetensorsReader::Open(own);
  REQUIRE(reader.ok());
  const auto shape = [&](const std::string& name) { return reader->Find(name)->shape; };
  using Dims = std::vector<int64_t>;
  CHECK(shape("features.0.0.weight") == Dims{4, 3, 4, 4});
  CHECK(shape("features.3.0.attn.relative_position_bias_table") == Dims{169, 2});
  CHECK(shape("features.3.0.attn.qkv.weight") == Dims{24, 8});
  CHECK(shape("features.2.reduction.weight") == Dims{8, 16});
  CHECK(shape("features.7.0.mlp.0.weight") == Dims{128, 32});
  CHECK(shape("head.weight") == Dims{5, 32});
  std::vector<WrittenTensor> tensors;
  for (const SafetensorsEntry& entry : reader->entries())
    tensors.push_back({entry, ReadTensor(*reader, entry.name).value()});
  tensors.push_back(
      {{"features.1.0.attn.relative_position_index", "I64", {1}}, std::string(8, '\0')});
  REQUIRE(Write(other, tensors).ok());
  Session second = Opened(TinySwin(), *device, {}, {.seed = 9});
  const absl::Status loaded = second.Load(other);
  REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
  CheckSameState(session, second);
}

}  // namespace
}  // namespace neap::nets
