#include "neap/layers/catalog/measured_catalog.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/catalog/engine_id.h"
#include "neap/layers/convolution.h"
#include "tests/layers/made_up_timings.h"

namespace neap {
namespace {

using testing::MadeUpTimings;

class Library final : public EngineCatalog {
 public:
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (AddsToGradients(signature)) return absl::UnimplementedError("none adds");
    return std::vector<Engine>{{.id = "first", .workspace_bytes = 8}, {.id = "second"}};
  }
  std::string Versions() const override { return "lib 1"; }
};

std::string Text(const absl::StatusOr<std::vector<Engine>>& engines) {
  REQUIRE(engines.ok());
  std::string text;
  for (const Engine& engine : *engines)
    absl::StrAppend(&text, engine.id, ":", engine.workspace_bytes, " ");
  return text;
}

StepSignature Images(int64_t batch, Phase phase = Phase::kForward) {
  return SignatureOf(Convolution{.out_channels = 4, .kernel = 3}, phase, {{{batch, 4, 6, 6}}})
      .value();
}

const MadeUpTimings kTimings({{"only there", 4, 16, 2}, {"fast", 4, 32, 1}, {"first", 4, 9, 3}});

TEST_CASE("engines of a library with the measured versions come before those it does not list") {
  MeasuredCatalog catalog(kTimings, "lib 1", std::make_unique<Library>());
  CHECK(Text(catalog.Engines(Images(4))) == "first:9 second:0 fast:32 only there:16 ");
  CHECK(Text(catalog.Engines(Images(5))) == "first:8 second:0 ");
  CHECK(catalog.Versions() == "lib 1");
  CHECK(absl::IsUnimplemented(
      catalog.Engines(AddingSignature(Images(4, Phase::kBackwardParams))).status()));
}

TEST_CASE("a library of other versions is used only for steps that were not measured") {
  MeasuredCatalog catalog(kTimings, "lib 2", std::make_unique<Library>());
  CHECK(Text(catalog.Engines(Images(4))) == "fast:32 only there:16 first:9 ");
  CHECK(Text(catalog.Engines(Images(5))) == "first:8 second:0 ");
}

TEST_CASE("without a library, an unmeasured step has one engine, and none that adds") {
  MeasuredCatalog catalog(kTimings, "lib 1", nullptr);
  CHECK(Text(catalog.Engines(Images(4))) == "fast:32 only there:16 first:9 ");
  CHECK(Text(catalog.Engines(Images(5))) == "default:0 ");
  CHECK(Text(catalog.Engines(AddingSignature(Images(4, Phase::kBackwardParams)))).empty());
}

TEST_CASE("engines with times of other versions are listed where there is nothing else") {
  const std::vector<TimedEngine> others = {
      {.engine = "other", .batch = 4, .seconds = 1, .source = TimeSource::kInterpolated}};
  const MadeUpTimings only_others(others);
  CHECK(Text(MeasuredCatalog(only_others, "lib 2", nullptr).Engines(Images(4))) == "other:0 ");
  CHECK(
      Text(MeasuredCatalog(only_others, "lib 2", std::make_unique<Library>()).Engines(Images(4))) ==
      "first:8 second:0 ");
  const MadeUpTimings both({others.front(), {"own", 4, 0, 2}});
  CHECK(Text(MeasuredCatalog(both, "lib 2", nullptr).Engines(Images(4))) == "own:0 ");
}

TEST_CASE("engines that add in fp16 are listed on request only") {
  const MadeUpTimings timings({{"full", 4, 0, 2}, WithTime(EngineFromText("half:eng"), 4, 1)});
  MeasuredCatalog full(timings, "lib 1", nullptr);
  MeasuredCatalog half(timings, "lib 1", nullptr, {.half_accumulation = true});
  CHECK(Text(full.Engines(Images(4))) == "full:0 ");
  CHECK(Text(half.Engines(Images(4))) == "half:eng:0 full:0 ");
  CHECK(half.Engines(Images(4))->front().accumulates_in_half);
  CHECK_FALSE(half.Engines(Images(4))->back().accumulates_in_half);
}

}  // namespace
}  // namespace neap
