// `neap train --device cpu,cpu`: several devices of one process train one network.
#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "neap/core/checkpoint/checkpoint.h"
#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

Args On(const std::string& devices, const Args& more) {
  return Joined({"train", "lenet", "--data", "synthetic", "--batch", "17", "--steps", "6",
                 "--log-every", "1", "--device", devices},
                more);
}

TEST_CASE("devices of one process train the whole batch, with even and uneven parts") {
  const std::vector<Json> alone = RunForJson(On("cpu", {}));
  for (const std::string devices : {"cpu,cpu", "cpu,cpu,cpu"}) {
    CAPTURE(devices);
    const bool is_pair = devices == "cpu,cpu";
    const Args more = is_pair ? Args{"--split", "5,12"} : Args{"--budget", "95%"};
    const std::vector<Json> together = RunForJson(On(devices, more));
    REQUIRE(together.size() == alone.size());
    CHECK(together.front().at("ranks") == (is_pair ? 2 : 3));
    for (size_t i = 1; i < alone.size(); ++i) {
      CHECK(together[i].at("loss").get<double>() ==
            doctest::Approx(alone[i].at("loss").get<double>()).epsilon(1e-4));
    }
    CHECK(together.back().at("rank_memory").size() == (is_pair ? 2 : 3));
    CHECK(together.back().at("peaks_equal") == true);
  }
}

TEST_CASE("a split by time gives a rank with less memory fewer images") {
  const Args args = {"train",    "resnet20",    "--batch",    "32",       "--device",
                     "cpu,cpu",  "--steps",     "1",          "--policy", "liveness",
                     "--budget", "64MiB,20MiB", "--database", "none"};
  CHECK(RunNeap(args).err.find("neap: rank 1: a budget of 20971520 bytes") == 0);
  const std::vector<Json> lines = RunForJson(Joined(args, {"--split", "auto"}));
  const auto split = lines.front().at("split").get<std::vector<int64_t>>();
  REQUIRE(split.size() == 2);
  CHECK(split[0] + split[1] == 32);
  CHECK(split[1] >= 9);
  CHECK(split[1] < 16);
  const Json& ranks = lines.back().at("rank_memory");
  CHECK(ranks[0].at("images") == split[0]);
  CHECK(ranks[1].at("measured_peak_bytes").get<int64_t>() <= 20 << 20);
  CheckRefused(Joined(args, {"--split", "auto", "--budget", "1MiB"}), 1,
               {"no split of --batch 32"});
  CheckRefused(Joined(args, {"--budget", "1GiB,1GiB,1GiB"}), 2, {"3 values", "2 ranks"});
  CheckRefused(Joined(args, {"--peer", "cuda:1,cuda:0,none"}), 2, {"--peer", "3 values"});
  CheckRefused(Joined(args, {"--peer-budget", "1MiB"}), 2, {"--peer-budget needs --peer"});
  CheckRefused(Joined(args, {"--split", "uneven"}), 2, {"even, auto or the images"});
}

TEST_CASE("an interrupt stops all devices at the same step, and training goes on from there") {
  const ScratchDirectory scratch;
  const std::string file = scratch.File("state.safetensors");
  const Args args = {"train", "lenet", "--batch", "16", "--device", "cpu,cpu", "--save", file};
  Process process = Process::Start(Joined(args, {"--steps", "100000"}));
  while (process.Running() && process.Output().find("step 1/") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  process.Signal(SIGTERM);
  const Outcome outcome = process.Wait();
  INFO(outcome.err);
  CHECK(outcome.out.find("interrupted after") != std::string::npos);
  const auto position = ReadTrainingPosition(file);
  REQUIRE_MESSAGE(position.ok(), position.status().ToString());
  CHECK((*position)->step > 0);
  const std::string last = std::to_string((*position)->step + 2);
  CHECK(RunForJson(Joined(args, {"--steps", last, "--resume", file})).back().at("steps") == 2);
}

TEST_CASE("ranks that torchrun has started are refused on CPUs") {
  const Args environment = {"RANK=0",
                            "WORLD_SIZE=2",
                            "LOCAL_RANK=0",
                            "LOCAL_WORLD_SIZE=2",
                            "MASTER_ADDR=localhost",
                            "MASTER_PORT=29500",
                            CommandPath()};
  const auto refused = [&](const std::string& devices) {
    const Outcome outcome =
        Process::StartCommand("/usr/bin/env", Joined(environment, On(devices, {}))).Wait();
    CHECK(outcome.exit_code != 0);
    return outcome.err;
  };
  const std::string on_cpu = refused("cpu");
  // Without NCCL they cannot even be ranks.
  CHECK((on_cpu.find("train on GPUs") != std::string::npos ||
         on_cpu.find("NCCL") != std::string::npos));
  CHECK(refused("cpu,cpu").find("torchrun has started a rank for each device") !=
        std::string::npos);
}

TEST_CASE("a device that cannot go on ends all, and names its rank") {
  const auto refused = [](const std::string& devices, const Args& more) {
    const Outcome outcome = RunNeap(On(devices, more));
    CHECK(outcome.exit_code != 0);
    CHECK(outcome.out == "");
    return outcome.err;
  };
  CHECK(refused("cpu,cpu", {"--budget", "1KiB"}).find("neap: rank 0: a budget of 1024") == 0);
  CHECK(refused("cpu,nothing", {}).find("neap: rank 1: unknown device 'nothing'") == 0);
  CHECK(refused("cpu,cpu", {"--split", "5,5"}).find("--split has 10 images, but --batch 17") !=
        std::string::npos);
  CHECK(refused("cpu,", {}).find("an empty name") != std::string::npos);
  CHECK(refused("cuda:0,cuda:0", {}).find("names cuda:0 twice") != std::string::npos);
  CHECK(refused("cpu", {"--split", "5,12"}).find("--split has 2 parts, but there are 1") !=
        std::string::npos);
}

}  // namespace
}  // namespace neap::testing
