#include "neap/nets/transformers/gpt2.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/checkpoint/safetensors.h"
#include "neap/layers/attention/attention.h"
#include "neap/nets/registry.h"
#include "tests/core/checkpoint/safetensors_files.h"
#include "tests/nets/resolved.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap::nets {
namespace {

const Gpt2Options kTinyGpt2 = {
    .variant = {"tiny", 2, 2, 4}, .tokens = 3, .vocabulary = 5, .batch = 2};

std::set<std::string> ParamNames(const Resolved& net) {
  std::set<std::string> names;
  for (const ResolvedLayer& layer : net.graph().layers) {
    for (const ParamSpec& param : layer.spec.params) names.insert(ParamName(layer, param));
  }
  return names;
}

TEST_CASE("GPT-2s have the numbers of parameters that Hugging Face's have") {
  struct Row {
    Gpt2Variant variant;
    int64_t parameters;
  };
  for (const Row& row : {Row{kGpt2, 124'439'808},
                         {kGpt2Medium, 354'823'168},
                         {kGpt2Large, 774'030'080},
                         {kGpt2Xl, 1'557'611'200}}) {
    CAPTURE(row.variant.name);
    CHECK(Parameters(Gpt2({.variant = row.variant})) == row.parameters);
  }
}

TEST_CASE("GPT-2's parameters have Hugging Face's names, and none is of a last layer") {
  const Resolved net(Gpt2({.batch = 2}));
  const std::set<std::string> names = ParamNames(net);
  CHECK(names.size() == 148);
  for (const char* const name :
       {"wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.attn.c_attn.weight",
        "h.0.attn.c_attn.bias", "h.5.attn.c_proj.weight", "h.11.ln_2.bias", "h.11.mlp.c_fc.weight",
        "h.11.mlp.c_proj.bias", "ln_f.weight", "ln_f.bias"}) {
    CAPTURE(name);
    CHECK(names.count(name) == 1);
  }
  CHECK(net.shape("input") == "2x1024");
  CHECK(net.shape("h.0.attn.c_attn") == "2x2304x1024");
  CHECK(net.shape("h.0.mlp.act") == "2x3072x1024");
  CHECK(net.shape("lm_head") == "2x1x1024");
  CHECK(*net.layer("h.3.attn").layer.As<Attention>() == Attention{.heads = 12, .causal = true});
}

TEST_CASE("GPT-2 has dropout only if it is asked for") {
  CHECK(Resolved(Gpt2({})).count("dropout") == 0);
  CHECK(Resolved(Gpt2({.dropout = 0.1F})).count("dropout") == 1 + 2 * 12);
}

// Two rows of four columns are 0 1 2 3, 4 5 6 7; the transpose has 0 4 1 5 2 6 3 7.
TEST_CASE("GPT-2's files have linear weights as {in, out}, and positions as {T, C}") {
  const ScratchDirectory directory;
  const std::string path = directory.File("weights");
  const auto device = OpenCpu();
  Session session = Opened(Gpt2(kTinyGpt2), *device);
  REQUIRE(session.SaveWeights(path).ok());
  const auto reader = SafetensorsReader::Open(path);
  REQUIRE(reader.ok());
  CHECK(reader->entries().size() == 4 + 2 * 12);
  const auto check = [&](const std::string& name, int64_t rows, int64_t columns) {
    CAPTURE(name);
    CHECK(reader->Find(name)->shape == std::vector<int64_t>{rows, columns});
    const std::string bytes = ReadTensor(*reader, name).value();
    std::vector<float> stored(static_cast<size_t>(rows * columns));
    std::memcpy(stored.data(), bytes.data(), bytes.size());
    const std::vector<float> own = *session.Values(name);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        CHECK(stored[static_cast<size_t>(row * columns + column)] ==
              own[static_cast<size_t>(column * rows + row)]);
      }
    }
  };
  check("wpe.weight", 3, 4);
  check("h.0.attn.c_attn.weight", 4, 12);
  check("h.1.mlp.c_proj.weight", 16, 4);
  CHECK(reader->Find("wte.weight")->shape == std::vector<int64_t>{5, 4});
}

TEST_CASE("files of Hugging Face's GPT2LMHeadModel load, and change nothing else") {
  const ScratchDirectory directory;
  const std::string own = directory.File("own"), other = directory.File("other");
  const auto device = OpenCpu();
  Session source = Opened(Gpt2(kTinyGpt2), *device, {}, {.seed = 5});
  REQUIRE(source.SaveWeights(own).ok());
  const auto reader = SafetensorsReader::Open(own);
  std::vector<WrittenTensor> tensors;
  for (SafetensorsEntry entry : reader->entries()) {
    const std::string bytes = ReadTensor(*reader, entry.name).value();
    if (entry.name == "wte.weight")
      tensors.push_back({{"lm_head.weight", entry.dtype, entry.shape}, bytes});
    tensors.push_back({{"transformer." + entry.name, entry.dtype, entry.shape}, bytes});
  }
  tensors.push_back({{"transformer.h.0.attn.bias", "F32", {1, 1, 1, 1}}, "1234"});
  REQUIRE(Write(other, tensors).ok());
  Session session = Opened(Gpt2(kTinyGpt2), *device, {}, {.seed = 6});
  const absl::Status loaded = session.Load(other);
  REQUIRE_MESSAGE(loaded.ok(), loaded.ToString());
  for (const char* const name : {"wte.weight", "wpe.weight", "h.1.attn.c_proj.weight"})
    CHECK(*session.Values(name) == *source.Values(name));
  tensors.push_back({{"wpe.weight", "F32", {3, 4}}, std::string(48, '\0')});
  REQUIRE(Write(other, tensors).ok());
  CHECK(session.Load(other).message() ==
        other + ": tensor 'wpe.weight' is there with a prefix, too");
}

}  // namespace
}  // namespace neap::nets
