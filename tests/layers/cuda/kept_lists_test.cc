// cuDNN's lists of engines, kept between runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "neap/layers/catalog/engine_lists.h"
#include "neap/layers/convolution.h"
#include "tests/environment.h"
#include "tests/layers/cuda/described_h200.h"
#include "tests/layers/engine_flags.h"

namespace neap::testing {
namespace {

class ListsInMemory final : public EngineLists {
 public:
  std::optional<std::string> Find(std::string_view library, std::string_view problem) override {
    const auto found = lists.find({std::string(library), std::string(problem)});
    return found == lists.end() ? std::nullopt : std::optional(found->second);
  }
  void Keep(std::string_view library, std::string_view problem, std::string_view list) override {
    lists[{std::string(library), std::string(problem)}] = std::string(list);
    ++kept;
  }

  std::map<std::pair<std::string, std::string>, std::string> lists;
  int kept = 0;
};

// Of all phases of a convolution, in three types: their ids, workspaces, bits, notes and flags.
std::string EnginesOf(EngineCatalog& catalog) {
  std::string text;
  const Layer conv = Convolution{.out_channels = 32, .kernel = 3, .padding = 1, .bias = false};
  for (const DType dtype : {DType::kFp32, DType::kTf32, DType::kFp16}) {
    for (const StepSignature& signature :
         Signatures(conv, {{8, 16, 20, 20}, dtype, Layout::kChannelsLast})) {
      const std::vector<Engine> engines = catalog.Engines(signature).value();
      for (const Engine& engine : engines) {
        text += engine.id + " " + std::to_string(engine.workspace_bytes) + " " + engine.notes +
                (engine.deterministic ? " same bits" : "") + FlagsOf(engine) + "\n";
      }
    }
  }
  return text;
}

TEST_CASE("kept lists are those that cuDNN gives, in every type, and are not asked for again") {
  const std::unique_ptr<EngineCatalog> without = CatalogOrSkip();
  if (!without) return;
  const auto lists = std::make_shared<ListsInMemory>();
  const std::string first = EnginesOf(*CatalogOrSkip({.lists = lists}));
  CHECK(first == EnginesOf(*without));
  const int kept = lists->kept;
  CHECK(kept >= 9);
  CHECK(EnginesOf(*CatalogOrSkip({.lists = lists})) == first);
  CHECK(lists->kept == kept);
  for (const auto& [of, list] : lists->lists) {
    CHECK(of.first == lists->lists.begin()->first.first);
    CHECK(of.first.starts_with("cuDNN "));
    CHECK(of.first.find(" for {") != std::string::npos);
    CHECK(of.first.find("NVIDIA H200") != std::string::npos);
    CHECK(of.first.find("pciDeviceId") == std::string::npos);
  }
  // What the rules leave out is kept, too: rules may change.
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  int64_t listed = 0;
  for (const auto& [of, list] : lists->lists) listed += lines(list);
  CHECK(listed > lines(first));
  for (auto& [of, list] : lists->lists) list = "eng0_k1=2 4096 t\neng1 0 n\n";
  const std::string read = EnginesOf(*CatalogOrSkip({.lists = lists}));
  CHECK(read.find("eng0_k1=2 4096 tensor-core same bits on tensor cores\n") != std::string::npos);
  CHECK(read.find("eng1 0 nondeterministic\n") != std::string::npos);
  CHECK(lists->kept == kept);
}

TEST_CASE("a kept text that is no list of engines is replaced") {
  const std::unique_ptr<EngineCatalog> without = CatalogOrSkip();
  if (!without) return;
  const std::string want = EnginesOf(*without);
  const auto lists = std::make_shared<ListsInMemory>();
  EnginesOf(*CatalogOrSkip({.lists = lists}));
  const int kept = lists->kept;
  int times = 1;
  for (const char* const text :
       {"eng0 0 t", "eng0 0\n", "eng0 -1 t\n", "eng0 0 tt\n", "eng0 0 x\n", "eng0 0 wt\n",
        "engine 0 t\n", "eng0 007 t\n", "eng0 1e3 t\n", "eng0 0 t n\n", "\n", "eng0 0 \n"}) {
    CAPTURE(text);
    for (auto& [of, list] : lists->lists) list = text;
    CHECK(EnginesOf(*CatalogOrSkip({.lists = lists})) == want);
    CHECK(lists->kept == kept * ++times);
  }
}

TEST_CASE("lists of a GPU with fewer multiprocessors are others") {
  const std::unique_ptr<EngineCatalog> without = CatalogOrSkip();
  if (!without) return;
  const auto lists = std::make_shared<ListsInMemory>();
  EnginesOf(*CatalogOrSkip({.lists = lists}));
  std::string properties = CudnnDeviceProperties(DescribedDevice("h200").value()).value();
  const std::string whole = "\"multiProcessorCount\":132";
  REQUIRE(properties.find(whole) != std::string::npos);
  properties.replace(properties.find(whole), whole.size(), "\"multiProcessorCount\":66");
  const int kept = lists->kept;
  EnginesOf(*MakeCudnnCatalog(properties, {}, {.lists = lists}).value());
  CHECK(lists->kept == 2 * kept);
  CHECK(lists->lists.size() == 2 * static_cast<size_t>(kept));
}

TEST_CASE("lists made without TF32 for the whole process are others") {
  const Environment unset("NVIDIA_TF32_OVERRIDE", nullptr);
  const auto lists = std::make_shared<ListsInMemory>();
  const std::unique_ptr<EngineCatalog> with = CatalogOrSkip({.lists = lists});
  if (!with) return;
  EnginesOf(*with);
  const int kept = lists->kept;
  const Environment without("NVIDIA_TF32_OVERRIDE", "0");
  EnginesOf(*CatalogOrSkip({.lists = lists}));
  CHECK(lists->kept == 2 * kept);
  CHECK(lists->lists.size() == 2 * static_cast<size_t>(kept));
}

}  // namespace
}  // namespace neap::testing
