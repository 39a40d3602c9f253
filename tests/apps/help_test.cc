#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr char kHelp[] =
    R"(neap trains networks larger than the device's memory: it plans every byte of an iteration,
proves the plan, and runs it.

usage: neap SUBCOMMAND [flags]

subcommands:
  plan NET           plan one training iteration; needs no GPU
  train NET          train a network under a byte budget
  eval NET           measure the accuracy of trained weights on a dataset
  predict NET        print what trained weights predict for each image
  export NET         write a network with its weights to an ONNX file
  peak-batch NET...  find the largest batch that fits a byte budget
  peak-depth NET...  find the deepest network that fits a byte budget
  profile NET        measure how long each engine of each step takes
  bench WHAT         compare ways to run convolutions, workspaces or the memory pool
  paper NAME         show a paper's table or figure beside neap's
  nets               list the networks
  devices            list the devices to train on and to plan for

neap SUBCOMMAND --help lists its flags; neap --version prints the version.
)";

constexpr char kDevicesHelp[] =
    R"(usage: neap devices [flags]

Lists the devices to train on, and published cards to plan for.

flags:
  --describe DEVICE         instead print one device as a FILE for --device of commands that plan: )"
    R"(cpu, cuda:N, whose copies are timed, a card that neap devices lists, such as rtx4090, )"
    R"(or a FILE of neap devices --describe
  --measure-copies          time copies to and from pinned host memory and peers, )"
    R"(and what they slow down
  --measure-collectives DEVICES
                            time sums over ranks on these devices, )"
    R"(as for --device of neap train, and keep that in the profile database for plans; )"
    R"(nothing is listed
  --database FILE           the profile database (~/.cache/neap/profile.db)
  --json                    print one JSON object
  --help                    print this help
)";

TEST_CASE("neap --help lists the subcommands") {
  const Outcome outcome = RunNeap({"--help"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == kHelp);
  CHECK(outcome.err.empty());
}

TEST_CASE("neap --version prints name, version and commit") {
  const Outcome outcome = RunNeap({"--version"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.starts_with("neap "));
  CHECK(outcome.out.find(" (commit ") != std::string::npos);
  CHECK(outcome.out.ends_with(")\n"));
}

TEST_CASE("help and version are subcommands, too, and have short forms") {
  for (const Words& help : {Words{"help"}, {"help", "--help"}, {"-h"}})
    CHECK(RunNeap(help).out == kHelp);
  CHECK(RunNeap({"help", "devices"}).out == kDevicesHelp);
  CHECK(RunNeap({"help", "bench", "conv"}).out == RunNeap({"bench", "conv", "--help"}).out);
  const std::string version = RunNeap({"--version"}).out;
  for (const char* word : {"version", "-v", "-V"}) CHECK(RunNeap({word}).out == version);
  CheckRefused({"help", "trian"}, 2, {"unknown subcommand 'trian'; did you mean train?"});
}

TEST_CASE("a subcommand's --help lists its flags with their defaults") {
  CHECK(RunNeap({"devices", "--help"}).out == kDevicesHelp);
  for (const char* subcommand : {"plan", "train"}) {
    const Outcome outcome = RunNeap({subcommand, "--help"});
    CHECK(outcome.exit_code == 0);
    for (const char* line :
         {"  --batch N                 images in a batch, unless nnunet:FILE plans another (32)\n",
          "  --dtype TYPE              element type: fp32, tf32, fp16, bf16 (fp32)\n",
          "auto (auto with --budget, else liveness)\n",
          "offloaded tensors (75% of the host's memory, on a CPU 0)\n",
          "  --json                    print "}) {
      CHECK(outcome.out.find(line) != std::string::npos);
    }
  }
}

TEST_CASE("subcommands that take a network refer to neap nets") {
  for (const std::vector<std::string>& command :
       {Words{"plan"}, {"train"}, {"peak-batch"}, {"peak-depth"}, {"bench", "workspace"}}) {
    CHECK(RunNeap(Joined(command, {"--help"})).out.find("neap nets lists them") !=
          std::string::npos);
    CheckRefused(command, 2, {"NET is missing", "neap nets lists them"});
  }
  CHECK(RunNeap({"profile", "--help"}).out.find("neap nets lists them") != std::string::npos);
}

TEST_CASE("neap nets lists every network with its defaults") {
  const std::vector<nets::Network> networks = nets::Networks();
  const Json listed = RunForJson({"nets"}).at(0).at("nets");
  REQUIRE(listed.size() == networks.size());
  const std::vector<std::string> lines = absl::StrSplit(RunNeap({"nets"}).out, '\n');
  REQUIRE(lines.size() == networks.size() + 2);
  for (size_t i = 0; i < networks.size(); ++i) {
    const nets::Network& network = networks[i];
    CHECK(listed.at(i).at("net") == network.name);
    CHECK(listed.at(i).at("image") == network.image);
    CHECK(listed.at(i).at("classes") == network.classes);
    CHECK(lines[i + 1].starts_with(std::string(network.name) + " "));
    CHECK(lines[i + 1].ends_with(network.description));
  }
}

TEST_CASE("the --help of a search has no flag for the size that is searched") {
  const std::string batch = RunNeap({"peak-batch", "--help"}).out;
  CHECK(batch.find("  --batch N") == std::string::npos);
  CHECK(batch.find("  --compare-batch N         with --run, also train") != std::string::npos);
  CHECK(batch.find("belady (lru)\n") != std::string::npos);
  CHECK(batch.find("(auto)\n") != std::string::npos);
  const std::string depth = RunNeap({"peak-depth", "--help"}).out;
  CHECK(depth.find("  --depth N") == std::string::npos);
  for (const std::string& help : {batch, depth}) CHECK(help.find("60%") == std::string::npos);
  CHECK(depth.find("  --batch N                 images in a batch, unless nnunet:FILE plans "
                   "another (16)\n") != std::string::npos);
}

TEST_CASE("--help is printed even if other arguments are wrong") {
  CHECK(RunNeap({"plan", "--nonsense", "--help"}).exit_code == 0);
}

}  // namespace
}  // namespace neap::testing
