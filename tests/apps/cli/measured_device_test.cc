// Devices as a profile database has them, of which some versions are not here.
#include "apps/cli/measured_device.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

// A time of one step of LeNet's at batch 32, later than those that `path` has.
void Record(const std::string& path, const ProfiledDevice& device) {
  const Graph graph = nets::Build("lenet", {.batch = 32}).value();
  const Program program = BuildProgram(graph, {}).value();
  ProfileDatabase database = ProfileDatabase::Open(path, device).value();
  const Measurement measurement = {
      .batch = 32, .engine = {.id = "made up"}, .median_seconds = 1e-3, .repeats = 7};
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  REQUIRE(
      database.Record(SignatureText(program.Signature(program.steps.front())), measurement).ok());
}

std::string VersionsOf(const std::string& path, const std::string& device) {
  const absl::StatusOr<apps::MeasuredDevice> found = apps::OpenMeasuredDevice(path, device);
  REQUIRE(found.ok());
  return found->device.versions;
}

TEST_CASE("of several versions the installed one counts, however the device is named") {
  const ScratchDirectory directory;
  const std::string path = directory.File("profile.db");
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  const std::string name = cpu->description().name;
  const std::string here = cpu->backend().Versions();
  for (const std::string& versions : {std::string("oneDNN 1"), here, std::string("oneDNN 2")})
    Record(path, {.name = name, .versions = versions});
  CHECK(VersionsOf(path, "cpu") == here);
  CHECK(VersionsOf(path, name) == here);
  CHECK(VersionsOf(path, "") == here);
}

TEST_CASE("of several versions, if none is installed, the last measured one counts") {
  const ScratchDirectory directory;
  const std::string path = directory.File("profile.db");
  for (const char* const versions : {"cuDNN 1", "cuDNN 3", "cuDNN 2"})
    Record(path, {.name = "NVIDIA H200", .versions = versions});
  for (const char* const device : {"h200", "NVIDIA H200", ""})
    CHECK(VersionsOf(path, device) == "cuDNN 2");
}

// A database with times of libraries that are not here.
struct OtherLibrary {
  ScratchDirectory directory;
  std::string path = directory.File("h200.db");

  OtherLibrary() {
    for (const char* const versions : {"cuDNN 1", "cuDNN 2"})
      Record(path, {.name = "NVIDIA H200", .versions = versions});
  }
  // Whether what stderr says of that is all that it should.
  static bool IsSaid(const std::string& err) {
    const absl::StatusOr<std::unique_ptr<EngineCatalog>> catalog = DescribedCatalog("h200");
    const std::string here = (*catalog)->Versions();
    const std::string said =
        "neap: kernels of NVIDIA H200 were measured with cuDNN 2, but this machine has " + here;
    return (err.find(said) != std::string::npos) == !here.empty();
  }
};

TEST_CASE("plan prints the versions of its measured times, and whether others are installed") {
  const OtherLibrary measured;
  const std::vector<std::string> plan = {"plan",    "lenet", "--device",   "h200",
                                         "--batch", "32",    "--database", measured.path};
  CHECK(RunForJson(plan).at(0).at("measured_with") == "cuDNN 2");
  const Outcome outcome = RunNeap(plan);
  CHECK(outcome.out.find("\n  measured with        cuDNN 2\n") != std::string::npos);
  CHECK(OtherLibrary::IsSaid(outcome.err));
  for (const std::vector<std::string>& without :
       {Joined(plan, {"--batch", "16"}), Joined(plan, {"--database", "none"})}) {
    CHECK(RunForJson(without).at(0).at("measured_with").is_null());
    const Outcome unmeasured = RunNeap(without);
    CHECK(unmeasured.out.find("measured with") == std::string::npos);
    CHECK(unmeasured.err.empty());
  }
}

TEST_CASE("a plan for an H200 uses the times that come with neap, unless it is to use none") {
  constexpr char kMeasured[] = "cuDNN 9.19.0, cuBLASLt 13.1.0";
  constexpr char kSaid[] = "times that come with neap";
  const std::vector<std::string> plan = {"plan", "alexnet", "--batch", "256", "--device", "h200"};
  const Json by_default = RunForJson(plan).at(0);
  CHECK(by_default.at("installed_times") == kMeasured);
  CHECK(by_default.at("measured_with") == kMeasured);
  // Times of other versions than those of the library here count as estimated. Without a library,
  // a convolution may run in parts that only have a placeholder.
  const std::string here = DescribedCatalog("h200").value()->Versions();
  const int64_t runs = by_default.at("runs"), measured_runs = by_default.at("measured_runs");
  if (here == kMeasured) CHECK(measured_runs == runs);
  if (here.empty()) CHECK(measured_runs > runs * 9 / 10);
  if (here != kMeasured && !here.empty()) CHECK(by_default.at("interpolated_runs") > runs / 2);
  CHECK(RunNeap(plan).out.find(kSaid) != std::string::npos);
  // A database without times of the device changes nothing.
  const ScratchDirectory directory;
  const std::string path = directory.File("other.db");
  Record(path, {.name = "NVIDIA A100", .versions = "cuDNN 1"});
  const Json by_other = RunForJson(Joined(plan, {"--database", path})).at(0);
  CHECK(by_other.at("plan_hash") == by_default.at("plan_hash"));
  CHECK(by_other.at("installed_times") == kMeasured);

  for (const std::vector<std::string>& without :
       {Joined(plan, {"--database", "none"}), Joined(plan, {"--device", "b200"}),
        Joined(plan, {"--no-installed-times"}),
        Joined(plan, {"--database", path, "--no-installed-times"})}) {
    const Json json = RunForJson(without).at(0);
    CHECK(json.at("installed_times").is_null());
    CHECK(json.at("measured_with").is_null());
    CHECK(json.at("measured_runs") == 0);
    CHECK(json.at("interpolated_runs") == 0);
    CHECK(RunNeap(without).out.find(kSaid) == std::string::npos);
  }
}

TEST_CASE("peak-batch and bench workspace print the versions of measured times too") {
  const OtherLibrary measured;
  const std::vector<std::string> target = {"--device", "h200", "--database", measured.path};
  const int64_t budget =
      RunForJson(Joined({"plan", "lenet", "--batch", "32", "--policy", "superneurons"}, target))
          .at(0)
          .at("minimum_budget_bytes");
  const std::vector<std::string> peak = Joined(
      {"peak-batch", "lenet", "--policy", "superneurons", "--budget", std::to_string(budget)},
      target);
  const Json result = RunForJson(peak).at(0).at("results").at(0);
  REQUIRE(result.at("batch") == 32);
  CHECK(result.at("measured_with") == "cuDNN 2");
  const Outcome peaks = RunNeap(peak);
  CHECK(peaks.out.find("\n  kernel times measured with cuDNN 2\n") != std::string::npos);
  CHECK(OtherLibrary::IsSaid(peaks.err));

  const std::vector<std::string> bench =
      Joined({"bench", "workspace", "lenet", "--plan-only", "--batches", "32", "--budgets", "1GiB"},
             target);
  CHECK(RunForJson(bench).at(0).at("versions") == "cuDNN 2");
  const Outcome compared = RunNeap(bench);
  CHECK(compared.out.find(", on NVIDIA H200 (cuDNN 2)\n") != std::string::npos);
  CHECK(OtherLibrary::IsSaid(compared.err));
}

}  // namespace
}  // namespace neap::testing
