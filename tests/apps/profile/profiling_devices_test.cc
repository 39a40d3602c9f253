#include "apps/profile/profiling_devices.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/profile/profiled_net.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/profile/profile_steps.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"
#include "tests/forwarding_device.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using apps::MeasuringTime;
using apps::ProfiledNet;
using apps::ProfileWork;
using apps::ProfilingDevices;
using Json = nlohmann::json;

// A CPU that can have another name, and be lost after so many copies.
class NamedDevice final : public ForwardingDevice {
 public:
  explicit NamedDevice(std::string name)
      : NamedDevice(CpuDevice::Open().value(), std::move(name)) {}

  const DeviceDescription& description() const override { return description_; }
  absl::Status Copy(Stream stream, void* destination, const void* source, int64_t bytes) override {
    if (copies++ >= lost_after) return absl::InternalError("the device is lost");
    return ForwardingDevice::Copy(stream, destination, source, bytes);
  }

  int lost_after = std::numeric_limits<int>::max();
  int copies = 0;  // read only while nothing is measured

 private:
  NamedDevice(std::unique_ptr<CpuDevice> cpu, std::string name)
      : ForwardingDevice(*cpu), cpu_(std::move(cpu)), description_(cpu_->description()) {
    description_.name = std::move(name);
  }
  std::unique_ptr<CpuDevice> cpu_;
  DeviceDescription description_;
};

ProfiledNet LeNet() {
  return {.graph = nets::Build("lenet", {.batch = 4}).value(), .optimizer = {}};
}

ProfilingDevices::Member MemberOf(const std::string& name, std::unique_ptr<Device> device,
                                  const std::string& path) {
  ProfileDatabase database =
      ProfileDatabase::Open(path, {device->description().name, device->backend().Versions()})
          .value();
  return {name, std::move(device), std::move(database)};
}

struct Pair {
  explicit Pair(const std::string& path) {
    auto a = std::make_unique<NamedDevice>("fake");
    auto b = std::make_unique<NamedDevice>("fake");
    first = a.get();
    second = b.get();
    std::vector<ProfilingDevices::Member> members;
    members.push_back(MemberOf("fake:0", std::move(a), path));
    members.push_back(MemberOf("fake:1", std::move(b), path));
    devices.emplace(ProfilingDevices::Of(std::move(members)).value());
  }
  NamedDevice* first = nullptr;
  NamedDevice* second = nullptr;
  std::optional<ProfilingDevices> devices;
};

constexpr ProfileOptions kQuick = {.divisions = DivisionPolicy::kPowerOfTwo, .samples = 1};

// The rows of the programs' kernels as texts.
std::set<std::string> RowsOf(ProfileDatabase& database, const std::vector<Program>& programs,
                             EngineCatalog& catalog) {
  std::set<std::string> rows;
  const std::vector<StepSignature> kernels =
      WithParts(apps::KernelsOfAll(programs), kQuick.divisions, catalog).value();
  for (const StepSignature& kernel : kernels) {
    const std::string operation = SignatureText(kernel);
    const auto measured = database.Measurements(operation).value();
    for (const Measurement& row : measured)
      rows.insert(operation + " " + std::to_string(row.batch) + " " + row.engine.id);
  }
  return rows;
}

TEST_CASE("two devices share the work of one, into one database") {
  const ScratchDirectory directory;
  Pair pair(directory.File("pair.db"));
  const std::vector<Program> programs =
      apps::ProgramsOf(LeNet(), pair.devices->description()).value();
  std::set<std::thread::id> threads;
  ProfileWork last;
  const ProfileWork work = pair.devices
                               ->Measure(programs, kQuick,
                                         [&](const ProfileWork& now) {
                                           threads.insert(std::this_thread::get_id());
                                           CHECK(now.steps_done >= last.steps_done);
                                           CHECK(now.measured >= last.measured);
                                           last = now;
                                           return true;
                                         })
                               .value();
  CHECK(work.is_whole());
  CHECK(work.known == 0);
  CHECK(work.failed == 0);
  CHECK(threads.size() == 2);
  CHECK(last.steps_done == work.steps);
  CHECK(last.measured == work.measured);
  CHECK(pair.first->copies > 0);
  CHECK(pair.second->copies > 0);

  auto alone = std::make_unique<NamedDevice>("fake");
  EngineCatalog& catalog = alone->backend();
  std::vector<ProfilingDevices::Member> one;
  one.push_back(MemberOf("fake:0", std::move(alone), directory.File("alone.db")));
  ProfilingDevices single = ProfilingDevices::Of(std::move(one)).value();
  const ProfileWork whole = single.Measure(programs, kQuick, nullptr).value();
  CHECK(whole.is_whole());
  CHECK(whole.steps == work.steps);
  // Which engines add to gradients is measured only near the fastest, so the rows may differ there.
  const auto without_adding = [](std::set<std::string> rows) {
    std::erase_if(rows, [](const std::string& row) {
      return row.find("param_grad[0]+=") != std::string::npos;
    });
    return rows;
  };
  CHECK(without_adding(RowsOf(pair.devices->database(), programs, catalog)) ==
        without_adding(RowsOf(single.database(), programs, catalog)));

  const ProfileWork again = pair.devices->Measure(programs, kQuick, nullptr).value();
  CHECK(again.measured == 0);
  CHECK(again.known == work.measured);
}

TEST_CASE("the error of a device that fails has its name, and the other one stops") {
  const ScratchDirectory directory;
  Pair pair(directory.File("pair.db"));
  const std::vector<Program> programs =
      apps::ProgramsOf(LeNet(), pair.devices->description()).value();
  pair.second->lost_after = 20;  // in the middle of the work
  const absl::StatusOr<ProfileWork> work = pair.devices->Measure(programs, kQuick, nullptr);
  CHECK(work.status() == absl::InternalError("fake:1: the device is lost"));
  // What the first one has measured is kept, and the second one continues when it works again.
  pair.second->lost_after = std::numeric_limits<int>::max();
  const ProfileWork rest = pair.devices->Measure(programs, kQuick, nullptr).value();
  CHECK(rest.is_whole());
  CHECK(rest.measured > 0);
  CHECK(rest.known + rest.measured == pair.devices->database().Counts()->measured);
}

TEST_CASE("all devices stop when the caller has seen enough") {
  const ScratchDirectory directory;
  Pair pair(directory.File("pair.db"));
  const std::vector<Program> programs =
      apps::ProgramsOf(LeNet(), pair.devices->description()).value();
  const auto until = [](const ProfileWork& work) { return work.measured < 4; };
  const ProfileWork work = pair.devices->Measure(programs, kQuick, until).value();
  CHECK(!work.is_whole());
  CHECK(work.measured >= 4);
  CHECK(work.measured <= 6);  // each device ends at the next engine
}

TEST_CASE("devices of different models do not share times") {
  const ScratchDirectory directory;
  const std::string path = directory.File("profile.db");
  std::vector<ProfilingDevices::Member> members;
  members.push_back(MemberOf("fake:0", std::make_unique<NamedDevice>("one model"), path));
  members.push_back(MemberOf("fake:1", std::make_unique<NamedDevice>("another"), path));
  const absl::Status status = ProfilingDevices::Of(std::move(members)).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message().find("fake:0 is one model (") != std::string::npos);
  CHECK(status.message().find("fake:1 is another (") != std::string::npos);
}

TEST_CASE("measured kernels take no more time, and larger ones take longer") {
  const ScratchDirectory directory;
  Pair pair(directory.File("pair.db"));
  const std::vector<Program> programs =
      apps::ProgramsOf(LeNet(), pair.devices->description()).value();
  const std::vector<StepSignature> kernels =
      WithParts(apps::KernelsOfAll(programs), kQuick.divisions, pair.first->backend()).value();
  MeasuringTime before(programs, kQuick, *pair.first, pair.devices->database());
  for (const StepSignature& kernel : kernels) {
    CHECK(before.Of(kernel) > 0);
    if (IsDivisible(kernel) && BatchOf(kernel) > 1)
      CHECK(before.Of(kernel) >= before.Of(WithBatch(kernel, 1)));
  }
  REQUIRE(pair.devices->Measure(programs, kQuick, nullptr)->is_whole());
  MeasuringTime after(programs, kQuick, *pair.first, pair.devices->database());
  MeasuringTime again(programs, {.samples = 1, .again = true}, *pair.first,
                      pair.devices->database());
  for (const StepSignature& kernel : kernels) {
    if (AddsToGradients(kernel)) continue;
    CHECK(after.Of(kernel) == 0);
    CHECK(again.Of(kernel) > 0);
  }
}

std::vector<std::string> Profile(const std::string& devices, const std::string& database) {
  return {"profile",     "lenet",     "--device",  devices, "--batch",    "2",
          "--divisions", "undivided", "--samples", "1",     "--database", database};
}

TEST_CASE("neap profile --device cpu,cpu measures what --device cpu does") {
  const ScratchDirectory directory;
  const Json both = RunForJson(Profile("cpu,cpu", directory.File("both.db"))).at(0);
  const Json one = RunForJson(Profile("cpu", directory.File("one.db"))).at(0);
  for (const char* const field : {"steps", "steps_done", "measured", "operations", "rows"}) {
    CAPTURE(field);
    CHECK(both.at(field) == one.at(field));
  }
  CHECK(both.at("interrupted") == false);
  const Json known = RunForJson(Profile("cpu", directory.File("both.db"))).at(0);
  CHECK(known.at("measured") == 0);
  CHECK(known.at("known") == both.at("measured"));
}

TEST_CASE("Ctrl-C stops all devices, and the command continues from there") {
  const ScratchDirectory directory;
  const std::string database = directory.File("profile.db");
  Process process = Process::Start(
      Joined(Profile("cpu,cpu", database), {"--divisions", "all", "--samples", "100", "--json"}));
  process.AwaitErrors("profile lenet: ");
  process.Signal(SIGINT);
  const Outcome stopped = process.Wait();
  CHECK(stopped.exit_code == 130);
  CHECK(stopped.err.find(kStopping) != std::string::npos);
  const Json interrupted = Json::parse(stopped.out);
  CHECK(interrupted.at("interrupted") == true);
  CHECK(interrupted.at("steps_done").get<int>() < interrupted.at("steps").get<int>());
  const Json rest = RunForJson(Profile("cpu,cpu", database)).at(0);
  CHECK(rest.at("interrupted") == false);
}

TEST_CASE("lists of devices that cannot be measured are refused") {
  const ScratchDirectory directory;
  const std::string database = directory.File("profile.db");
  CheckRefused(Profile("cuda:0,cuda:0", database), 2, {"--device names cuda:0 twice"});
  CheckRefused(Profile("cpu,", database), 2, {"--device has an empty name between its commas"});
  CheckRefused(Profile("cpu,h200", database), 2, {"'h200' is only a description"});
}

}  // namespace
}  // namespace neap::testing
