// Engines that are read from files have the flags of those that a catalog lists. Needs cuDNN, but
// no GPU.
#include <doctest/doctest.h>

#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/catalog/measured_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/profile/installed_profile.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "tests/layers/cuda/described_h200.h"
#include "tests/layers/engine_flags.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

constexpr char kVersions[] = "made up 1";

using Flags = std::map<std::string, std::string>;  // by id

Flags FlagsOfRows(const std::vector<TimedEngine>& rows) {
  Flags flags;
  for (const TimedEngine& row : rows) flags[row.engine] = FlagsOfId(row);
  return flags;
}

// An operation "conv" that was measured with every engine.
std::string InstalledText(const std::vector<Engine>& engines) {
  std::string ids, rows;
  for (size_t i = 0; i < engines.size(); ++i) {
    char number[8];
    char* const end = std::to_chars(number, number + sizeof(number), i, 36).ptr;
    absl::StrAppend(&ids, engines[i].id, "\n");
    absl::StrAppend(&rows, ",", std::string(number, end), "  1");
  }
  return absl::StrCat("neap installed profile 1\ndevice made up\nversions 1\npieces 1\nconv\n",
                      "engines ", engines.size(), "\n", ids, "operations 1\n0 0 0:1", rows, "\n");
}

// Of the listed engines, and of those from a database and from an installed profile.
void CheckFlags(const StepSignature& step, const std::vector<Engine>& engines,
                const std::string& path) {
  CAPTURE(SignatureText(step));
  Flags listed;
  const ProfiledDevice device = {.name = "made up", .versions = kVersions};
  ProfileDatabase database = ProfileDatabase::Open(path, device).value();
  for (const Engine& engine : engines) {
    listed[engine.id] = FlagsOfId(engine);
    const Measurement row = {
        .batch = BatchOf(step), .engine = engine, .median_seconds = 1e-3, .repeats = 7};
    REQUIRE(database.Record(SignatureText(step), row).ok());
  }
  Flags read;
  const std::vector<Measurement> rows = database.Measurements(SignatureText(step)).value();
  for (const Measurement& row : rows) read[row.engine.id] = FlagsOfId(row.engine);
  CHECK(read == listed);

  const ProfiledTimings timings(std::move(database));
  CHECK(FlagsOfRows(timings.Of(step)) == listed);
  MeasuredCatalog absent(timings, kVersions, /*library=*/nullptr, {.half_accumulation = true});
  Flags measured;
  const std::vector<Engine> known = absent.Engines(step).value();
  for (const Engine& engine : known) measured[engine.id] = FlagsOfId(engine);
  CHECK(measured == listed);

  CHECK(FlagsOfRows(InstalledProfile::Parse(InstalledText(engines))->Of("conv")) == listed);
}

TEST_CASE("an engine that is read from a file has the flags of the listed engine of its id") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip({.half_accumulation = true});
  if (!catalog) return;
  const ScratchDirectory directory;
  const Convolution conv = {.out_channels = 64, .kernel = 3, .padding = 1};
  int64_t in_half = 0, with_relu = 0, others = 0;
  for (const Layer& layer : {Layer(conv), Layer(FusedConvolution{conv})}) {
    for (const DType dtype : {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16}) {
      for (const StepSignature& step :
           Signatures16(layer, {{16, 64, 28, 28}, dtype, Layout::kChannelsLast})) {
        const std::vector<Engine> engines = catalog->Engines(step).value();
        for (const Engine& engine : engines) {
          in_half += engine.accumulates_in_half ? 1 : 0;
          with_relu += engine.computes_relu ? 1 : 0;
          others += FlagsOfId(engine).empty() ? 1 : 0;
        }
        CheckFlags(step, engines, directory.File("profile.db"));
      }
    }
  }
  CHECK(in_half > 0);
  CHECK(with_relu > 0);
  CHECK(others > 0);
}

}  // namespace
}  // namespace neap::testing
