#include "neap/layers/profile/profile_database.h"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"
#include "neap/layers/profile/earlier_operation.h"
#include "neap/layers/profile/profiled_timings.h"
#include "tests/environment.h"
#include "tests/layers/profile/profile_records.h"
#include "tests/scratch_directory.h"

namespace neap {
namespace {

using testing::IsMeasured;
using testing::Measured;
using testing::OpenDatabase;

TEST_CASE("recorded measurements are read back, in this and in the next run") {
  const ScratchDirectory directory;
  const std::string path = directory.File("cache/neap/profile.db");
  const Measurement fast = {.batch = 32,
                            .engine = {"cudnn 38 \"knobs\"", 1 << 20, false},
                            .median_seconds = 1.25e-3,
                            .spread = 0.015625,
                            .repeats = 20};
  {
    ProfileDatabase database = OpenDatabase(path);
    CHECK(database.notices().empty());
    CHECK(database.Measurements("conv")->empty());
    CHECK_FALSE(*database.Contains("conv", 32, fast.engine.id));
    REQUIRE(database.Record("conv", fast).ok());
  }
  ProfileDatabase database = OpenDatabase(path);
  const std::vector<Measurement> found = *database.Measurements("conv");
  REQUIRE(found.size() == 1);
  CHECK(found[0].batch == 32);
  CHECK(found[0].engine.id == fast.engine.id);
  CHECK(found[0].engine.workspace_bytes == 1 << 20);
  CHECK_FALSE(found[0].engine.deterministic);
  CHECK(found[0].median_seconds == 1.25e-3);
  CHECK(found[0].spread == 0.015625);
  CHECK(found[0].repeats == 20);
  CHECK_FALSE(found[0].failed());
  CHECK(found[0].recorded_unix_ms > 1'600'000'000'000);
  CHECK(*database.Contains("conv", 32, fast.engine.id));
  CHECK_FALSE(*database.Contains("conv", 16, fast.engine.id));
  CHECK_FALSE(*database.Contains("conv", 32, "other"));
  CHECK_FALSE(*database.Contains("other", 32, fast.engine.id));
}

TEST_CASE("a failed engine is recorded with its reason, and has no time") {
  const ScratchDirectory directory;
  ProfileDatabase database = OpenDatabase(directory.File("p.db"));
  REQUIRE(
      database.Record("conv", {.engine = {"winograd", 64}, .failure = "needs a 3x3 kernel"}).ok());
  CHECK(*database.Contains("conv", 1, "winograd"));
  const Measurement found = database.Measurements("conv")->at(0);
  CHECK(found.failed());
  CHECK(found.failure == "needs a 3x3 kernel");
  CHECK(found.engine.workspace_bytes == 64);
  CHECK(found.repeats == 0);
  const ProfileCounts counts = *database.Counts();
  CHECK(counts.failed == 1);
  CHECK(counts.measured == 0);
}

TEST_CASE("opening to read neither changes an existing database nor creates a missing one") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  const ProfiledDevice device = OpenDatabase(path).device();
  REQUIRE(OpenDatabase(path).Record("conv", Measured(4, "a")).ok());
  absl::StatusOr<ProfileDatabase> read = ProfileDatabase::OpenToRead(path, device);
  REQUIRE(read.ok());
  CHECK(read->Measurements("conv")->size() == 1);
  CHECK(!read->Record("conv", Measured(8, "a")).ok());
  const std::string absent = directory.File("absent.db");
  CHECK(ProfileDatabase::OpenToRead(absent, device).status().code() == absl::StatusCode::kNotFound);
  CHECK(ProfileDatabase::OpenToRead(absent, device).status().code() == absl::StatusCode::kNotFound);
  const std::string other = directory.File("model.safetensors");
  const std::string text = "not a database at all, and longer than a header of one";
  std::ofstream(other) << text;
  CHECK(!ProfileDatabase::OpenToRead(other, device).ok());
  CHECK(ReadText(other) == text);
}

TEST_CASE("an operation whose layer was renamed has the rows of its earlier name, too") {
  const std::string relu = "norm_pass forward training epsilon=1e-05 adds=false relu=true x";
  const std::string clip = "norm_pass forward training epsilon=1e-05 activation=clip(low=0) x";
  CHECK(EarlierOperation(relu) == "fused_batch_norm" + relu.substr(9));
  CHECK(EarlierOperation(clip) == "activated_batch_norm" + clip.substr(9));
  CHECK(EarlierOperation("concat_batch_norms forward x") == "joined_batch_norms forward x");
  CHECK(EarlierOperation("batch_norm forward x") == "batch_norm forward x");
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  ProfileDatabase database = OpenDatabase(path);
  REQUIRE(database.Record(EarlierOperation(relu), Measured(8, "a", 30)).ok());
  REQUIRE(database.Record(EarlierOperation(relu), Measured(4, "b", 30)).ok());
  REQUIRE(database.Record(EarlierOperation(clip), Measured(2, "a", 30)).ok());
  REQUIRE(database.Record(relu, Measured(8, "a", 20)).ok());
  REQUIRE(database.Record(relu, Measured(4, "a", 20)).ok());
  CHECK(*database.Contains(relu, 4, "b"));
  CHECK(!*database.Contains(relu, 2, "a"));
  const std::vector<Measurement> found = database.Measurements(relu).value();
  REQUIRE(found.size() == 3);
  CHECK(IsMeasured(found[0], 4, "a"));
  CHECK(found[1].engine.id == "b");
  CHECK(found[1].repeats == 30);
  CHECK(IsMeasured(found[2], 8, "a"));
  CHECK(database.Measurements(relu, 4)->size() == 2);
  CHECK(ProfileDatabase::OpenToRead(path, database.device())->Measurements(clip)->size() == 1);
}

TEST_CASE("times that cannot be read count as not measured, which is reported once") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  std::vector<StepSignature> steps;
  for (const int64_t channels : {2, 3, 4}) {
    const TensorSpec x = {{4, channels, 1, 1}};
    steps.push_back(SignatureOf(Relu{}, Phase::kForward, {x}).value());
  }
  {
    ProfileDatabase database = OpenDatabase(path);
    for (const StepSignature& step : steps)
      REQUIRE(database.Record(SignatureText(step), Measured(4, "a")).ok());
  }
  std::vector<absl::Status> errors;
  const ProfiledTimings timings(ProfileDatabase::OpenToRead(path, {"H200", "cudnn 9"}).value(),
                                [&](const absl::Status& error) { errors.push_back(error); });
  CHECK(timings.Of(steps[0]).size() == 1);
  REQUIRE(SqliteConnection::Open(path, SqliteAccess::kReadWrite)
              ->RunScript("UPDATE measurements SET median_seconds = 0.5")
              .ok());
  CHECK(errors.empty());
  CHECK(timings.Of(steps[1]).empty());
  CHECK(timings.Of(steps[2]).empty());
  CHECK(timings.Of(steps[0]).size() == 1);  // read before
  REQUIRE(errors.size() == 1);
  CHECK(absl::IsDataLoss(errors[0]));
  CHECK(errors[0].message().find(SignatureText(steps[1])) != absl::string_view::npos);
}

TEST_CASE("an operation's measurements are in order of batch, then engine") {
  const ScratchDirectory directory;
  ProfileDatabase database = OpenDatabase(directory.File("p.db"));
  for (const int64_t batch : {16, 2, 128}) {
    for (const char* const engine : {"b", "a"}) {
      REQUIRE(database.Record("conv", Measured(batch, engine)).ok());
      REQUIRE(database.Record("another", Measured(batch, engine)).ok());
    }
  }
  const auto order_of = [](const std::vector<Measurement>& found) {
    std::string order;
    for (const Measurement& m : found) absl::StrAppend(&order, m.batch, m.engine.id, " ");
    return order;
  };
  CHECK(order_of(*database.Measurements("conv")) == "2a 2b 16a 16b 128a 128b ");
  CHECK(order_of(*database.Measurements("conv", 16)) == "16a 16b ");
  CHECK(database.Measurements("conv", 3)->empty());
}

TEST_CASE("a record replaces the previous one") {
  const ScratchDirectory directory;
  ProfileDatabase database = OpenDatabase(directory.File("p.db"));
  REQUIRE(database.Record("conv", {.engine = {"a"}, .failure = "busy"}).ok());
  REQUIRE(database.Record("conv", Measured(1, "a", 30)).ok());
  REQUIRE(database.Record("conv", Measured(1, "a", 10)).ok());
  const std::vector<Measurement> found = *database.Measurements("conv");
  REQUIRE(found.size() == 1);
  CHECK(found[0].repeats == 10);
  CHECK_FALSE(found[0].failed());
}

TEST_CASE("a record with kKeepBetter does not replace a better one") {
  const ScratchDirectory directory;
  ProfileDatabase database = OpenDatabase(directory.File("p.db"));
  REQUIRE(database.Record("conv", Measured(1, "a", 10)).ok());
  const Measurement failure = {.engine = {"a"}, .failure = "busy"};
  REQUIRE(database.Record("conv", failure, OnConflict::kKeepBetter).ok());
  CHECK_FALSE(database.Measurements("conv")->front().failed());
  REQUIRE(database.Record("conv", failure).ok());
  CHECK(database.Measurements("conv")->front().failed());
}

TEST_CASE("devices and library versions do not see each other's measurements") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  ProfileDatabase one = OpenDatabase(path);
  ProfileDatabase newer = OpenDatabase(path, {"H200", "cudnn 10"});
  ProfileDatabase other = OpenDatabase(path, {"H100", "cudnn 9"});
  REQUIRE(one.Record("conv", Measured(1, "a")).ok());
  REQUIRE(one.Record("relu", Measured(1, "a")).ok());
  REQUIRE(newer.Record("conv", {.engine = {"a"}, .failure = "gone"}).ok());
  CHECK(one.Measurements("conv")->size() == 1);
  CHECK(newer.Measurements("conv")->at(0).failed());
  CHECK(other.Measurements("conv")->empty());
  CHECK_FALSE(*other.Contains("conv", 1, "a"));
  const ProfileCounts counts = *one.Counts();
  CHECK(counts.operations == 2);
  CHECK(counts.measured == 2);
  CHECK(counts.failed == 0);
  CHECK(counts.rows == 3);
  CHECK(other.Counts()->operations == 0);
}

TEST_CASE("a database says which devices and versions it has, the last measured first") {
  const ScratchDirectory directory;
  const std::string path = directory.File("profile.db");
  CHECK(OpenDatabase(path).Devices().value().empty());
  REQUIRE(OpenDatabase(path, {"H200", "cudnn 8"}).Record("conv", Measured(1, "a", 20, 2)).ok());
  REQUIRE(OpenDatabase(path, {"H200", "cudnn 9"}).Record("conv", Measured(1, "a", 20, 3)).ok());
  REQUIRE(OpenDatabase(path, {"CPU", "onednn"}).Record("conv", Measured(1, "a", 20, 1)).ok());
  REQUIRE(OpenDatabase(path, {"GPU", "none"})
              .Record("conv", {.engine = {.id = "a"}, .failure = "no", .recorded_unix_ms = 9})
              .ok());
  std::vector<std::string> found;
  const std::vector<ProfiledDevice> devices =
      OpenDatabase(path, {"any", "other"}).Devices().value();
  for (const ProfiledDevice& device : devices) found.push_back(device.name + " " + device.versions);
  CHECK(found == std::vector<std::string>{"H200 cudnn 9", "H200 cudnn 8", "CPU onednn"});
}

TEST_CASE("impossible measurements are refused") {
  const ScratchDirectory directory;
  ProfileDatabase database = OpenDatabase(directory.File("p.db"));
  const double infinity = std::numeric_limits<double>::infinity();
  const Measurement good = Measured(4, "a");
  std::vector<Measurement> bad(11, good);
  bad[0].batch = 0;
  bad[1].engine.id.clear();
  bad[2].engine.workspace_bytes = -1;
  bad[3].median_seconds = 0;
  bad[4].median_seconds = std::nan("");
  bad[5].median_seconds = infinity;
  bad[6].spread = -0.1;
  bad[7].spread = infinity;
  bad[8].repeats = 0;
  bad[9].failure = "failed, with a time";
  bad[10].median_seconds = -1;
  for (const Measurement& measurement : bad) {
    CHECK(absl::IsInvalidArgument(database.Record("conv", measurement)));
  }
  CHECK(database.Counts()->rows == 0);
  CHECK(database.Record("conv", good).ok());
}

TEST_CASE("merging prefers times to failures, shorter times, and among equal ones the newer") {
  const ScratchDirectory directory;
  ProfileDatabase mine = OpenDatabase(directory.File("mine.db"));
  ProfileDatabase theirs = OpenDatabase(directory.File("theirs.db"));
  ProfileDatabase other = OpenDatabase(directory.File("theirs.db"), {"H100", "cudnn 9"});
  const Measurement failure = {.engine = {"a"}, .failure = "busy", .recorded_unix_ms = 99};
  Measurement disturbed = Measured(1, "a", 21, 9);
  disturbed.median_seconds *= 50;
  struct Case {
    const char* operation;
    Measurement mine;
    Measurement theirs;
    bool taken;
  };
  const std::vector<Case> cases = {
      {"shorter, older", disturbed, Measured(1, "a", 7, 1), true},
      {"longer, newer", Measured(1, "a", 7, 1), disturbed, false},
      {"as long, newer", Measured(1, "a", 10, 5), Measured(1, "a", 7, 6), true},
      {"as long, older", Measured(1, "a", 10, 5), Measured(1, "a", 21, 4), false},
      {"the same", Measured(1, "a", 10, 5), Measured(1, "a", 10, 5), false},
      {"time over failure", failure, Measured(1, "a", 1, 1), true},
      {"failure under time", Measured(1, "a", 1, 1), failure, false},
      {"another batch", Measured(1, "a", 10, 5), Measured(2, "a", 1, 1), true},
      {"another engine", Measured(1, "a", 10, 5), Measured(1, "b", 1, 1), true}};
  int64_t expected = 1;
  for (const Case& c : cases) {
    REQUIRE(mine.Record(c.operation, c.mine).ok());
    REQUIRE(theirs.Record(c.operation, c.theirs).ok());
    expected += c.taken ? 1 : 0;
  }
  REQUIRE(other.Record("of another device", Measured(1, "a")).ok());
  CHECK(*mine.Merge(theirs.path()) == expected);
  CHECK(*mine.Merge(theirs.path()) == 0);
  for (const Case& c : cases) {
    CAPTURE(c.operation);
    const Measurement wanted = c.taken ? c.theirs : c.mine;
    bool found = false;
    const std::vector<Measurement> all = *mine.Measurements(c.operation);
    for (const Measurement& m : all) {
      found |= m.batch == wanted.batch && m.engine.id == wanted.engine.id &&
               m.repeats == wanted.repeats && m.recorded_unix_ms == wanted.recorded_unix_ms &&
               m.failure == wanted.failure;
    }
    CHECK(found);
  }
  CHECK(mine.Counts()->rows == 12);
  CHECK(*mine.Merge(mine.path()) == 0);
}

TEST_CASE("the CSV file has all rows, in order and quoted as needed") {
  const ScratchDirectory directory;
  const std::string path = directory.File("p.db");
  ProfileDatabase database = OpenDatabase(path, {"H200", "cudnn 9.19, neap 0.1"});
  ProfileDatabase other = OpenDatabase(path, {"CPU", "oneDNN 2.7"});
  REQUIRE(database
              .Record("conv forward", {.batch = 2,
                                       .engine = {"a", 1024},
                                       .median_seconds = 0.00125,
                                       .spread = 0.5,
                                       .repeats = 20,
                                       .recorded_unix_ms = 7})
              .ok());
  REQUIRE(database
              .Record("conv forward", {.batch = 1,
                                       .engine = {"b", 0, false},
                                       .failure = "said \"no\",\ntwice",
                                       .recorded_unix_ms = 8})
              .ok());
  REQUIRE(other.Record("relu", Measured(1, "jit", 3, 9)).ok());
  REQUIRE(database.WriteCsv(directory.File("out.csv")).ok());
  CHECK(ReadText(directory.File("out.csv")) ==
        "device,versions,operation,batch,engine,workspace_bytes,deterministic,median_seconds,"
        "spread,repeats,failure,recorded_unix_ms\n"
        "CPU,oneDNN 2.7,relu,1,jit,0,1,0.001,0.01,3,,9\n"
        "H200,\"cudnn 9.19, neap 0.1\",conv forward,1,b,0,0,,,0,\"said \"\"no\"\",\ntwice\",8\n"
        "H200,\"cudnn 9.19, neap 0.1\",conv forward,2,a,1024,1,0.00125,0.5,20,,7\n");
  CHECK(absl::IsNotFound(database.WriteCsv(directory.File("no such folder/out.csv"))));
}

TEST_CASE("the default path is in the user's cache folder") {
  const testing::Environment home("HOME", "/home/ada");
  {
    const testing::Environment cache("XDG_CACHE_HOME", "/big/cache");
    CHECK(*DefaultProfilePath() == "/big/cache/neap/profile.db");
  }
  for (const char* const none : {static_cast<const char*>(nullptr), "", "relative"}) {
    const testing::Environment cache("XDG_CACHE_HOME", none);
    CHECK(*DefaultProfilePath() == "/home/ada/.cache/neap/profile.db");
    const testing::Environment no_home("HOME", nullptr);
    CHECK(absl::IsNotFound(DefaultProfilePath().status()));
  }
}

}  // namespace
}  // namespace neap
