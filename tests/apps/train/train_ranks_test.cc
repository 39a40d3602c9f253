// `neap train` started by mpirun: ranks on this machine's CPU train one network.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "neap/core/checkpoint/checkpoint.h"
#include "neap/layers/collectives/mpi_ranks.h"
#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"
#include "tests/scratch_directory.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Seconds = std::chrono::duration<double>;

// Root may start mpirun, and there may be more ranks than cores. MPI leaves memory to the end of
// the process, which is no leak of neap's.
const Args kMpirun = {"OMPI_ALLOW_RUN_AS_ROOT=1",
                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                      "OMPI_MCA_rmaps_base_oversubscribe=1",
                      "OMPI_MCA_btl_vader_single_copy_mechanism=none",
                      "ASAN_OPTIONS=detect_leaks=0",
                      "mpirun",
                      "-n"};

bool HasMpi() { return BuiltWithMpi() && std::system("command -v mpirun >/dev/null") == 0; }

Process StartRanks(int ranks, const Args& args) {
  return Process::StartCommand(
      "/usr/bin/env", Joined(Joined(kMpirun, {std::to_string(ranks), CommandPath()}), args));
}

// The JSON objects that rank 0 has printed.
std::vector<Json> ObjectsIn(const std::string& out) {
  std::vector<Json> objects;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    objects.push_back(Json::parse(line, nullptr, false));
    REQUIRE_MESSAGE(objects.back().is_object(), line);
  }
  return objects;
}

std::vector<Json> RunRanks(int ranks, const Args& args) {
  const Outcome outcome = StartRanks(ranks, Joined(args, {"--json"})).Wait();
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return ObjectsIn(outcome.out);
}

struct ProcessState {
  char letter = 0;  // as in `man proc`; 0: there is no such process
  pid_t parent = 0;
};

ProcessState StateOf(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string stat;
  std::getline(file, stat, '\0');
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  ProcessState state;
  fields >> state.letter >> state.parent;
  return state;
}

// Whether it computes, or waits; not, whether somebody has asked how it ended.
bool Runs(pid_t process) {
  const char letter = StateOf(process).letter;
  return letter != 0 && letter != 'Z' && letter != 'X';
}

// The processes of the ranks, whose parent is mpirun.
std::vector<pid_t> RanksOf(const Process& mpirun) {
  std::vector<pid_t> ranks;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      continue;
    const pid_t process = std::stoi(name);
    if (StateOf(process).parent == mpirun.id()) ranks.push_back(process);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// Whether none of the ranks runs any more, at the latest after so long; if not, they are killed.
bool EndWithin(const std::vector<pid_t>& ranks, Seconds limit) {
  const auto start = std::chrono::steady_clock::now();
  while (std::any_of(ranks.begin(), ranks.end(), Runs)) {
    if (std::chrono::steady_clock::now() - start > limit) {
      for (const pid_t rank : ranks) kill(rank, SIGKILL);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// What mpirun says once its ranks have ended; it is killed if it does not end.
Outcome OutcomeOf(Process& mpirun) {
  for (int tenths = 0; tenths < 50 && mpirun.Running(); ++tenths)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (mpirun.Running()) mpirun.Signal(SIGKILL);
  return mpirun.Wait();
}

Args Lenet(int64_t batch) {
  return {"train",   "lenet",     "--device",    "cpu",
          "--data",  "synthetic", "--batch",     std::to_string(batch),
          "--steps", "6",         "--log-every", "1"};
}

TEST_CASE("ranks train the whole batch: even and uneven parts, with and without a budget") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const std::vector<Json> alone = RunForJson(Lenet(17));
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const Args more = ranks == 3 ? Args{"--budget", "95%"} : Args{"--split", "5,12"};
    const std::vector<Json> together = RunRanks(ranks, Joined(Lenet(17), more));
    REQUIRE(together.size() == alone.size());
    CHECK(together.front().at("batch") == 17);
    CHECK(together.front().at("ranks") == ranks);
    for (size_t i = 1; i < alone.size(); ++i) {
      CHECK(together[i].at("loss").get<double>() ==
            doctest::Approx(alone[i].at("loss").get<double>()).epsilon(1e-4));
    }
    for (size_t i = 1; i + 1 < alone.size(); ++i)
      CHECK(together[i].at("correct") == alone[i].at("correct"));
    const Json& end = together.back();
    CHECK(end.at("rank_memory").size() == static_cast<size_t>(ranks));
    CHECK(end.at("peaks_equal") == true);
  }
}

TEST_CASE("ranks that synchronise batch norms train what one rank does") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const Args args = {"train",
                     "resnet-cifar",
                     "--depth",
                     "8",
                     "--device",
                     "cpu",
                     "--batch",
                     "7",
                     "--steps",
                     "4",
                     "--log-every",
                     "1",
                     "--sync-batch-norm"};
  const std::vector<Json> alone = RunForJson(args);
  const std::vector<Json> together = RunRanks(2, args);
  REQUIRE(together.size() == alone.size());
  for (size_t i = 1; i < alone.size(); ++i) {
    CHECK(together[i].at("loss").get<double>() ==
          doctest::Approx(alone[i].at("loss").get<double>()).epsilon(1e-4));
  }
}

TEST_CASE("a sharded optimizer trains, saves and evaluates the same in less memory") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const ScratchDirectory scratch;
  const Args args = Joined(kTiny, {"--data", "idx:" + Digits(), "--classes", "10", "--eval"});
  const auto files = [&](const std::string& name) {
    return Args{"--steps",       "30",
                "--save",        scratch.File(name),
                "--weights-out", scratch.File(name + ".weights")};
  };
  const auto without = RunRanks(2, Joined(args, files("without")));
  const auto sharded = RunRanks(2, Joined(Joined(args, files("sharded")), {"--shard-optimizer"}));
  const auto read = [&](const std::string& name) {
    std::ifstream file(scratch.File(name), std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  };
  CHECK(!read("without").empty());
  CHECK(read("sharded") == read("without"));
  CHECK(read("sharded.weights") == read("without.weights"));
  CHECK(sharded.back().at("evaluation") == without.back().at("evaluation"));
  CHECK(sharded.back().at("peaks_equal") == true);
  for (const size_t rank : {0U, 1U}) {
    const auto peak = [rank](const Json& end) {
      return end.at("rank_memory").at(rank).at("measured_peak_bytes").get<int64_t>();
    };
    CHECK(peak(sharded.back()) < peak(without.back()));
  }
  // Threads of one process, which go on where processes have stopped.
  Args threads = Joined(args, {"--resume", scratch.File("sharded"), "--epochs", "1"});
  *std::find(threads.begin(), threads.end(), "cpu") = "cpu,cpu";
  const auto resumed = RunForJson(Joined(threads, {"--shard-optimizer"}));
  CHECK(resumed.back().at("evaluation") == RunForJson(threads).back().at("evaluation"));
}

TEST_CASE("only rank 0 tries the files that it will write") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const ScratchDirectory scratch;
  std::filesystem::create_directories(scratch.File("0/files"));
  std::filesystem::create_directories(scratch.File("1"));  // without the folder, as on a machine of
                                                           // its own
  const Args train = Joined(Joined({CommandPath()}, Lenet(6)), {"--save", "files/weights"});
  Args args = kMpirun;
  for (const std::string rank : {"0", "1"}) {
    if (rank == "1") args = Joined(args, {":", "-n"});
    args = Joined(Joined(args, {"1", "-wdir", scratch.File(rank)}), train);
  }
  const Outcome outcome = Process::StartCommand("/usr/bin/env", args).Wait();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(std::filesystem::exists(scratch.File("0/files/weights")));
  CHECK(std::filesystem::is_empty(scratch.File("1")));
}

TEST_CASE("each rank evaluates a part of the test images") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const Args args =
      Joined(kTiny, {"--data", "idx:" + Digits(), "--classes", "10", "--steps", "30", "--eval"});
  const Json evaluation = RunRanks(3, args).back().at("evaluation");
  CHECK(evaluation.at("images") == 360);
  CHECK(evaluation.at("accuracy").get<double>() > 0.5);
  CHECK(evaluation.at("correct").get<double>() / 360 == evaluation.at("accuracy").get<double>());
}

TEST_CASE("a test whose outputs are not finite is reported by ranks, too") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const Args args = {"train", "lenet", "--batch", "4", "--device", "cpu",
                     "--lr",  "1e38",  "--steps", "1", "--eval"};
  const Json evaluation = RunRanks(2, args).back().at("evaluation");
  CHECK(evaluation.at("loss").is_null());
  CHECK(evaluation.at("not_finite").get<std::string>().find("image 0 ") != std::string::npos);
}

TEST_CASE("the same ranks compute the same bits again, and from a checkpoint") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const ScratchDirectory scratch;
  const std::string half = scratch.File("half.safetensors");
  const auto train = [&](const Args& more) {
    return LossesOf(RunRanks(2, Joined(Joined(kTiny, {"--log-every", "1"}), more)));
  };
  const std::vector<std::string> whole = train({"--steps", "8"});
  CHECK(train({"--steps", "8"}) == whole);
  std::vector<std::string> parts = train({"--steps", "4", "--save", half});
  const std::vector<std::string> rest = train({"--steps", "8", "--resume", half});
  parts.insert(parts.end(), rest.begin(), rest.end());
  CHECK(parts == whole);
  // On another number of ranks it goes on, too.
  CHECK(RunRanks(3, Joined(kTiny, {"--steps", "8", "--resume", half})).back().at("steps") == 4);
}

TEST_CASE("a rank that cannot go on ends all, and names itself") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const auto refused = [](int ranks, const Args& args) {
    const Outcome outcome = StartRanks(ranks, args).Wait();
    CHECK(outcome.exit_code != 0);
    return outcome.err;
  };
  CHECK(refused(2, Joined(kTiny, {"--budget", "1KiB"})).find("neap: rank 0: a budget of 1024") !=
        std::string::npos);
  CHECK(
      refused(2, Joined(kTiny, {"--split", "8,7"})).find("--split has 15 images, but --batch 16") !=
      std::string::npos);
  CHECK(refused(2, Joined(kTiny, {"--split", "16"})).find("--split has 1 parts, but there are 2") !=
        std::string::npos);
  const Args one_image = {"train", "lenet", "--device", "cpu", "--batch", "1"};
  CHECK(refused(2, one_image).find("--batch 1 has too few images for 2 ranks") !=
        std::string::npos);
}

TEST_CASE("ranks with different settings end together, with the difference, once") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const Args first = Joined(kTiny, {"--seed", "1"}), second = Joined(kTiny, {"--seed", "2"});
  const Args both =
      Joined(Joined(Joined({"1", CommandPath()}, first), {":", "-n", "1", CommandPath()}), second);
  const Outcome outcome = Process::StartCommand("/usr/bin/env", Joined(kMpirun, both)).Wait();
  CHECK(outcome.exit_code != 0);
  const std::string line = "neap: rank 0: rank 1 and rank 0 differ in their seed: 2 and 1\n";
  const size_t at = outcome.err.find(line);
  CHECK(at != std::string::npos);
  CHECK(outcome.err.find("differ in their seed", at + line.size()) == std::string::npos);
}

TEST_CASE("ranks share the images of a batch file") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const ScratchDirectory scratch;
  const std::string path = scratch.File("batch");
  std::string bytes;
  for (int32_t i = 0; i < 6 * 28 * 28; ++i) {
    const auto value = static_cast<float>(i % 17) / 17;
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  for (int32_t label = 0; label < 6; ++label)
    bytes.append(reinterpret_cast<const char*>(&label), sizeof(label));
  WriteText(path, bytes);
  const Args args = {"train", "lenet",   "--device", "cpu",          "--batch",
                     "6",     "--steps", "5",        "--batch-file", path};
  const double alone = RunForJson(args).back().at("loss");
  CHECK(RunRanks(2, args).back().at("loss").get<double>() == doctest::Approx(alone).epsilon(1e-4));
}

TEST_CASE("one interrupted rank stops all at the same step, with a checkpoint that goes on") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  const ScratchDirectory scratch;
  const std::string file = scratch.File("state.safetensors");
  const Args args = Joined(kTiny, {"--steps", "100000", "--save", file});
  Process mpirun = StartRanks(2, args);
  while (mpirun.Running() && mpirun.Output().find("step 1/") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::vector<pid_t> ranks = RanksOf(mpirun);
  REQUIRE(ranks.size() == 2);
  kill(ranks[1], SIGTERM);
  const Outcome outcome = mpirun.Wait();
  INFO(outcome.err);
  CHECK(outcome.out.find("interrupted after") != std::string::npos);
  const auto position = ReadTrainingPosition(file);
  REQUIRE_MESSAGE(position.ok(), position.status().ToString());
  CHECK((*position)->step > 0);
}

// Each round kills one rank at another time: while it starts, computes, sums or saves.
TEST_CASE("a rank that is killed ends the others soon, and its last checkpoint is whole") {
  if (!HasMpi()) return SkipCase("there is no MPI");
  constexpr int kRounds = 5;
  const ScratchDirectory scratch;
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const std::string file = scratch.File("state" + std::to_string(round) + ".safetensors");
    const Args args = Joined(kTiny, {"--steps", "100000", "--save", file, "--save-every", "3"});
    Process mpirun = StartRanks(3, args);
    std::vector<pid_t> ranks;
    while (mpirun.Running() && (ranks = RanksOf(mpirun)).size() < 3)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(ranks.size() == 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1500));
    kill(ranks[random() % 3], SIGKILL);
    CHECK(EndWithin(ranks, Seconds(30)));
    const Outcome outcome = OutcomeOf(mpirun);
    INFO(outcome.err);
    CHECK(outcome.exit_code != 0);
    if (!std::filesystem::exists(file)) continue;
    // Before, a rank may have been killed while it connected to mpirun: that of Open MPI 4.1 then
    // waits for itself for ever (in PMIx_server_finalize).
    CHECK(outcome.signal == 0);
    const auto position = ReadTrainingPosition(file);
    REQUIRE_MESSAGE(position.ok(), position.status().ToString());
    // It goes on as if nothing had happened.
    const Args two_more = {"--log-every", "1", "--steps", std::to_string((*position)->step + 2)};
    const auto resumed = LossesOf(RunRanks(3, Joined(Joined(kTiny, two_more), {"--resume", file})));
    const auto clean = LossesOf(RunRanks(3, Joined(kTiny, two_more)));
    REQUIRE(resumed.size() == 2);
    CHECK(std::equal(resumed.begin(), resumed.end(), clean.end() - 2));
  }
}

}  // namespace
}  // namespace neap::testing
