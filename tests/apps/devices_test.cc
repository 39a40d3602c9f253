// `neap devices`, and the cards and files that --device of commands that plan takes.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "apps/cli/measured_device.h"
#include "neap/core/base/units.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/devices/device_file.h"
#include "neap/layers/profile/profile_database.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

Json Listed(const std::string& device) {
  const Json devices = RunForJson({"devices"}).at(0).at("devices");
  for (const Json& listed : devices) {
    if (listed.at("device") == device) return listed;
  }
  return nullptr;
}

// What `neap devices --describe` prints, in a file.
std::string Described(const std::string& device, const ScratchDirectory& directory) {
  const Outcome outcome = RunNeap({"devices", "--describe", device});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  std::string path = directory.File(device + ".json");
  WriteText(path, outcome.out);
  return path;
}

// The file that a plan for this device writes.
std::string PlanFor(const std::string& device, const Args& plan,
                    const ScratchDirectory& directory) {
  const std::string path = directory.File("plan");
  const Outcome outcome =
      RunNeap(Joined(plan, {"--device", device, "--database", "none", "--plan-out", path}));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return ReadText(path);
}

TEST_CASE("neap devices lists the CPU to train on, and a line for every card to plan for") {
  const Json devices = RunForJson({"devices"}).at(0).at("devices");
  CHECK(devices.at(0).at("device") == "cpu");
  CHECK(devices.at(0).at("trains") == true);
  const Json h200 = Listed("h200");
  CHECK(h200.at("trains") == false);
  CHECK(h200.at("memory_bytes") == 150109880320);
  CHECK(h200.at("peer_bandwidth") == 450e9);
  CHECK(h200.at("host_memory_bytes") == 256 * kGiB);
  CHECK(Listed("v100").at("half_flops") == 125e12);
  CHECK(Listed("v100").at("bf16_flops") == 15.7e12);
  const std::string text = RunNeap({"devices"}).out;
  for (const char* const line : {"\nk40c       Tesla K40c                11.250 GiB     4.29    "
                                 "4.29    4.29      288       8\n",
                                 "\nh200       NVIDIA H200              139.801 GiB       60     "
                                 "400     790     4300    55.5\n",
                                 "\nrtx4090    NVIDIA GeForce RTX 4090   23.650 GiB     82.6    "
                                 "82.6   165.2     1008      25\n"})
    CHECK_MESSAGE(text.find(line) != std::string::npos, text);
  for (const std::string& name : DescribedDeviceNames())
    CHECK(text.find("\n" + name + " ") != std::string::npos);
  const std::string cpu = text.substr(0, text.find("\n", text.find("\n") + 1));
  CHECK(cpu.starts_with("cpu      "));
  CHECK(cpu.find("host copies 8 GB/s") != std::string::npos);
  CHECK(cpu.find("tensor cores") == std::string::npos);
  CHECK(cpu.find("peer") == std::string::npos);
}

TEST_CASE("neap devices --describe prints a file that describes the same device") {
  const ScratchDirectory directory;
  for (const char* const name : {"h200", "k40c", "rtx5090"}) {
    const std::string path = Described(name, directory);
    CHECK(ReadDeviceFile(path).value() == DescribedDevice(name).value());
    CHECK(RunNeap({"devices", "--describe", path}).out == ReadText(path));  // of a file
  }
  const DeviceDescription cpu = ReadDeviceFile(Described("cpu", directory)).value();
  CHECK(cpu.kind == "cpu");
  CHECK(cpu.name == Listed("cpu").at("name"));
  const Outcome measured = RunNeap({"devices", "--describe", "cpu", "--measure-copies"});
  REQUIRE(measured.exit_code == 0);
  CHECK(DeviceFromJson(measured.out)->copy_bandwidth != cpu.copy_bandwidth);
}

TEST_CASE("a plan for a card is the same to the byte by its name and by its file") {
  const ScratchDirectory directory;
  const Args small = {"plan", "resnet-cifar", "--batch", "64", "--budget", "50%"};
  for (const char* const name : {"h200", "rtx4090", "v100-32gb", "cpu"}) {
    CAPTURE(name);
    const std::string file = Described(name, directory);
    CHECK(PlanFor(name, small, directory) == PlanFor(file, small, directory));
    const Args bf16 = {"plan", "resnet50", "--batch", "4", "--image", "64", "--dtype", "bf16"};
    if (std::string(name) == "rtx4090")
      CHECK(PlanFor(name, bf16, directory) == PlanFor(file, bf16, directory));
  }
}

TEST_CASE("resnet50 can be planned for an RTX 4090, which is slower than a B200") {
  const Args plan = {"plan", "resnet50", "--database", "none", "--dtype", "tf32"};
  const Json rtx4090 = RunForJson(Joined(plan, {"--device", "rtx4090"})).at(0);
  const Json b200 = RunForJson(Joined(plan, {"--device", "b200"})).at(0);
  CHECK(rtx4090.at("device") == "NVIDIA GeForce RTX 4090");
  CHECK(rtx4090.at("engines_known") == KnowsEnginesOfH200());
  CHECK(rtx4090.at("predicted_ms").get<double>() > 2 * b200.at("predicted_ms").get<double>());
}

TEST_CASE("a plan for a card that cuDNN does not support says so") {
  const Args plan = {"plan", "lenet", "--device", "k40c", "--database", "none"};
  CHECK(RunForJson(plan).at(0).at("engines_known") == false);
  CHECK(RunNeap(plan).out.find(
            "\n  engines              placeholders, one for each step, without workspace: cuDNN "
            "supports GPUs from compute capability 7.5, and Tesla K40c has 3.5\n") !=
        std::string::npos);
  const Args list = {"profile", "lenet", "--list", "--device", "k40c"};
  CHECK(RunForJson(list).at(0).at("engines_known") == false);
  CHECK(RunNeap(list).out.find("\nengines are placeholders, one for each step, without workspace: "
                               "cuDNN supports GPUs from compute capability 7.5") !=
        std::string::npos);
}

TEST_CASE("a file without the properties of a GPU plans with placeholders, and says why") {
  const ScratchDirectory directory;
  Json file = Json::parse(ReadText(Described("h200", directory)));
  file.erase("gpu");
  const std::string path = directory.File("gpu");  // a file need not be called .json
  WriteText(path, file.dump());
  const Outcome outcome = RunNeap({"plan", "lenet", "--device", path, "--database", "none"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("without workspace: the description of NVIDIA H200 has no properties of "
                         "a GPU\n") != std::string::npos);
}

TEST_CASE("every command that plans takes cards and files") {
  const ScratchDirectory directory;
  for (const std::string& device : {std::string("l4"), Described("l4", directory)}) {
    CAPTURE(device);
    const Args on = {"--device", device, "--database", "none"};
    CHECK(
        RunForJson(Joined({"peak-batch", "lenet", "--budget", "8MiB", "--policy", "liveness"}, on))
            .at(0)
            .at("device") == "NVIDIA L4");
    CHECK(RunForJson(Joined({"peak-depth", "resnet", "--budget", "400MB", "--image", "32",
                             "--batch", "2", "--policy", "liveness"},
                            on))
              .at(0)
              .at("device") == "NVIDIA L4");
    CHECK(RunForJson({"profile", "lenet", "--list", "--device", device}).at(0).at("device") ==
          "NVIDIA L4");
    const Json bench = RunForJson(Joined({"bench", "workspace", "lenet", "--plan-only", "--batches",
                                          "4", "--budgets", "64MiB"},
                                         on))
                           .at(0);
    CHECK(bench.at("runs").at(0).at("fits") == true);
    const Outcome curve = RunNeap(Joined({"plan", "lenet", "--curve", "--policy", "liveness"}, on));
    CHECK(curve.exit_code == 0);
    CHECK(curve.out.find(", on NVIDIA L4\n") != std::string::npos);
  }
}

TEST_CASE("times that were measured on a device count for its file, too") {
  const ScratchDirectory directory;
  const std::string path = directory.File("profile.db");
  ProfileDatabase database =
      ProfileDatabase::Open(path, {.name = "NVIDIA L4", .versions = "cuDNN 1"}).value();
  REQUIRE(
      database
          .Record("some operation",
                  {.batch = 1, .engine = {.id = "made up"}, .median_seconds = 1e-3, .repeats = 7})
          .ok());
  for (const std::string& device : {std::string("l4"), Described("l4", directory)}) {
    const absl::StatusOr<apps::MeasuredDevice> found = apps::OpenMeasuredDevice(path, device);
    REQUIRE_MESSAGE(found.ok(), std::string(found.status().message()));
    CHECK(found->device.versions == "cuDNN 1");
  }
}

TEST_CASE("a file that is not a description ends with 1, its path and its field") {
  const ScratchDirectory directory;
  const auto refused = [&](const std::string& text, const std::string& words) {
    const std::string path = directory.File("card.json");
    WriteText(path, text);
    for (const Args& command :
         {Args{"plan", "lenet"}, {"peak-batch", "lenet"}, {"profile", "lenet", "--list"}})
      CheckRefused(Joined(command, {"--device", path}), 1, {path + ": device: " + words});
    CheckRefused({"devices", "--describe", path}, 1, {path + ": device: " + words});
  };
  const Json good = Json::parse(ReadText(Described("h200", directory)));
  refused("{", "the text is not JSON (line 1, column 2)");
  Json file = good;
  file.erase("copy_bytes_per_second");
  refused(file.dump(), "has no field \"copy_bytes_per_second\"");
  file = good;
  file["memory"] = 1;
  refused(file.dump(), "has an unknown field \"memory\"");
  file = good;
  file["gpu"]["clock_khz"] = -1;
  refused(file.dump(), "gpu: clock_khz is -1, not from 1 to 2147483647");
  const std::string missing = directory.File("missing.json");
  CheckRefused({"plan", "lenet", "--device", missing}, 1, {missing, "No such file"});
  const std::string folder = directory.File("folder.json");
  std::filesystem::create_directory(folder);
  CheckRefused({"plan", "lenet", "--device", folder}, 1, {folder});
}

TEST_CASE("where only a device that is here will do, a card or a file is refused") {
  const ScratchDirectory directory;
  const std::string file = Described("h200", directory);
  for (const std::string& device : {std::string("rtx4090"), file}) {
    CheckRefused({"train", "lenet", "--device", device}, 2, {device, "not run on"});
    CheckRefused({"profile", "lenet", "--device", device}, 2, {device, "not run on"});
    CheckRefused({"peak-batch", "lenet", "--run", "--device", device}, 2, {"--run"});
    CheckRefused({"plan", "lenet", "--device", device, "--peer", "cuda:1"}, 2, {"--peer", device});
    CheckRefused({"devices", "--describe", device, "--measure-copies"}, 2,
                 {"--measure-copies", device});
  }
  CheckRefused({"devices", "--describe", "h200", "--measure-collectives", "cpu,cpu"}, 2,
               {"exclude each other"});
  CheckRefused({"devices", "--describe", "rtx4091"}, 2, {"'rtx4091'", "rtx4090"});
  const std::string cpu = Described("cpu", directory);
  CheckRefused({"plan", "lenet", "--dtype", "fp16", "--half-accumulation", "--device", cpu}, 2,
               {"--half-accumulation", cpu});
}

TEST_CASE("a command does not write over the description that it plans for") {
  const ScratchDirectory directory;
  const std::string file = Described("h200", directory);
  const std::string before = ReadText(file);
  CheckRefused({"plan", "lenet", "--device", file, "--plan-out", file}, 2,
               {"--plan-out", "--device"});
  CheckRefused({"profile", "lenet", "--list", "--device", file, "--csv", file}, 2,
               {"--csv", "--device"});
  CheckRefused({"bench", "workspace", "lenet", "--plan-only", "--device", file, "--csv", file}, 2,
               {"--csv", "--device"});
  CHECK(ReadText(file) == before);
}

TEST_CASE("a card's name is not taken for a file") {
  const ScratchDirectory directory;
  CHECK(apps::DeviceFile("h200").path.empty());
  CHECK(apps::DeviceFile("cpu").path.empty());
  CHECK(apps::DeviceFile("cuda:3").path.empty());
  CHECK(apps::DeviceFile("").path.empty());
  CHECK(apps::DeviceFile("h201").path.empty());
  CHECK(apps::DeviceFile("h201.json").path == "h201.json");
  CHECK(apps::DeviceFile(directory.path()).path.empty());
  WriteText(directory.File("card"), "");
  CHECK(apps::DeviceFile(directory.File("card")).path == directory.File("card"));
}

}  // namespace
}  // namespace neap::testing
