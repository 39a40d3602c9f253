// Rows with valid checksums and impossible numbers.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "tests/layers/profile/profile_records.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

using testing::Measured;
using testing::OpenDatabase;

using Change = std::function<void(Measurement&)>;

const std::vector<Change> kImpossible = {
    [](Measurement& m) { m.batch = kMaxMeasuredBatch + 1; },
    [](Measurement& m) { m.engine.workspace_bytes = kMaxMeasuredWorkspaceBytes + 1; },
    [](Measurement& m) { m.engine.workspace_bytes = std::numeric_limits<int64_t>::max(); },
    [](Measurement& m) { m.median_seconds = 0.9e-9; },
    [](Measurement& m) { m.median_seconds = 3600.1; },
    [](Measurement& m) { m.median_seconds = 1e7; },
    [](Measurement& m) { m.median_seconds = std::numeric_limits<double>::infinity(); },
    [](Measurement& m) { m.spread = 1.1e6; },
    [](Measurement& m) { m.spread = std::numeric_limits<double>::infinity(); },
    [](Measurement& m) { m.repeats = kMaxMeasuredRepeats + 1; }};

const std::vector<Change> kExtreme = {
    [](Measurement& m) { m.batch = kMaxMeasuredBatch; },
    [](Measurement& m) { m.engine.workspace_bytes = kMaxMeasuredWorkspaceBytes; },
    [](Measurement& m) { m.median_seconds = kMinMeasuredSeconds; },
    [](Measurement& m) { m.median_seconds = kMaxMeasuredSeconds; },
    [](Measurement& m) { m.spread = kMaxMeasuredSpread; },
    [](Measurement& m) { m.repeats = kMaxMeasuredRepeats; }};

Measurement Changed(const Change& change, const char* engine = "bad") {
  Measurement measurement = Measured(4, engine, 20, 9'000'000'000'000);
  change(measurement);
  return measurement;
}

// Writes a row with a valid checksum past the checks of ProfileDatabase.
void Smuggle(const std::string& path, const ProfiledDevice& device, const std::string& operation,
             const Measurement& measurement) {
  absl::StatusOr<SqliteConnection> connection =
      SqliteConnection::Open(path, SqliteAccess::kReadWrite);
  REQUIRE(connection.ok());
  const auto written =
      WriteRow(*connection, {device, operation, measurement}, OnConflict::kReplace);
  REQUIRE_MESSAGE(written.ok(), written.status().ToString());
}

TEST_CASE("numbers outside the limits are refused, and the limits themselves are accepted") {
  const ScratchDirectory directory;
  ProfileDatabase database = OpenDatabase(directory.File("p.db"));
  for (const Change& change : kImpossible)
    CHECK(absl::IsInvalidArgument(database.Record("conv", Changed(change))));
  CHECK(database.Counts()->rows == 0);
  for (const Change& change : kExtreme) {
    REQUIRE(database.Record("conv", Changed(change)).ok());
    CHECK(!database.Measurements("conv")->empty());
  }
  CHECK(database.notices().empty());
}

TEST_CASE("a row outside the limits is ignored wherever rows are read, with one notice") {
  const ScratchDirectory directory;
  const ProfiledDevice device = {"H200", "cudnn 9"};
  for (size_t i = 0; i < kImpossible.size(); ++i) {
    CAPTURE(i);
    const std::string path = directory.File(absl::StrCat(i, ".db"));
    REQUIRE(OpenDatabase(path).Record("conv", Measured(4, "good")).ok());
    Smuggle(path, device, "conv", Changed(kImpossible[i]));
    Smuggle(path, {"absurd", "1"}, "conv", Changed(kImpossible[i]));
    ProfileDatabase database = OpenDatabase(path);
    CHECK(database.notices().empty());
    const std::vector<Measurement> found = *database.Measurements("conv");
    REQUIRE(found.size() == 1);
    CHECK(found[0].engine.id == "good");
    REQUIRE(database.notices().size() == 1);
    CHECK(database.notices()[0].find(
              path + ": rows that cannot be right are ignored, the first of conv: ") == 0);
    CHECK(!*database.Contains("conv", Changed(kImpossible[i]).batch, "bad"));
    CHECK(database.Counts()->rows == 1);
    CHECK(database.Counts()->measured == 1);
    REQUIRE(database.Devices()->size() == 1);
    CHECK(database.Devices()->front().name == "H200");
    REQUIRE(database.WriteCsv(directory.File("out.csv")).ok());
    CHECK(ReadText(directory.File("out.csv")).find("bad") == std::string::npos);
    CHECK(database.notices().size() == 1);
    CHECK(!std::filesystem::exists(path + ".set-aside-1"));
  }
}

TEST_CASE("a new measurement replaces an ignored row, whatever that row claims") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  ProfileDatabase database = OpenDatabase(path);
  for (size_t i = 0; i < kImpossible.size(); ++i) {
    CAPTURE(i);
    const std::string operation = absl::StrCat("conv ", i);
    const Measurement bad = Changed(kImpossible[i], "a");
    Smuggle(path, database.device(), operation, bad);
    REQUIRE(database
                .Record(operation, Measured(std::min(bad.batch, kMaxMeasuredBatch), "a"),
                        OnConflict::kKeepBetter)
                .ok());
    CHECK(database.Measurements(operation)->size() == 1);
  }
  Smuggle(path, database.device(), "failed", Changed(kImpossible[1], "a"));
  const Measurement failure = {.batch = 4, .engine = {"a"}, .failure = "no"};
  REQUIRE(database.Record("failed", failure, OnConflict::kKeepBetter).ok());
  CHECK(database.Measurements("failed")->at(0).failed());
}

TEST_CASE("merging leaves out ignored rows, with a notice") {
  const ScratchDirectory directory;
  ProfileDatabase mine = OpenDatabase(directory.File("mine.db"));
  const std::string path = directory.File("theirs.db");
  REQUIRE(OpenDatabase(path).Record("conv", Measured(4, "good")).ok());
  for (const Change& change : kImpossible) Smuggle(path, mine.device(), "conv", Changed(change));
  CHECK(*mine.Merge(path) == 1);
  CHECK(mine.Measurements("conv")->size() == 1);
  REQUIRE(mine.notices().size() == 1);
  CHECK(mine.notices()[0].find("theirs.db: rows that cannot be right") != std::string::npos);
}

TEST_CASE("timings report ignored rows to the planner's caller") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  const StepSignature step = SignatureOf(Relu{}, Phase::kForward, {{{4, 2, 1, 1}}}).value();
  const ProfiledDevice device = OpenDatabase(path).device();
  REQUIRE(OpenDatabase(path).Record(SignatureText(step), Measured(4, "good")).ok());
  Smuggle(path, device, SignatureText(step), Changed(kImpossible[5]));
  std::vector<absl::Status> errors;
  const ProfiledTimings timings(ProfileDatabase::OpenToRead(path, device).value(),
                                [&](const absl::Status& error) { errors.push_back(error); });
  CHECK(timings.Of(step).size() == 1);
  CHECK(timings.Of(step).size() == 1);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].message().find("are ignored") != absl::string_view::npos);
}

}  // namespace
}  // namespace neap
