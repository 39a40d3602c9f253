// Where a command writes: links, devices, FIFOs, the same file twice, and places that cannot be
// written.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;

const Args kPlan = {"plan", "lenet", "--device", "cpu", "--database", "none"};
const Args kTrain = {"train", "lenet", "--device", "cpu", "--database", "none", "--steps", "1"};

// Every flag that names an output, with a command that takes it.
std::vector<std::pair<Args, std::string>> OutputFlags(const ScratchDirectory& directory) {
  const Args profile = {
      "profile", "lenet", "--device",  "cpu", "--database",  directory.File("profile.db"),
      "--batch", "4",     "--samples", "1",   "--divisions", "undivided"};
  const Args conv = {"bench",     "conv", "--set",      "lenet",
                     "--batch",   "2",    "--device",   "cpu",
                     "--samples", "1",    "--database", directory.File("profile.db")};
  const Args workspace = {"bench",      "workspace", "lenet",     "--plan-only", "--device",  "cpu",
                          "--database", "none",      "--budgets", "256MiB",      "--batches", "4"};
  return {{kPlan, "--plan-out"},     {kPlan, "--trace-out"},
          {kPlan, "--report"},       {kTrain, "--save"},
          {kTrain, "--weights-out"}, {kTrain, "--trace-out"},
          {profile, "--csv"},        {Joined(profile, {"--list"}), "--csv"},
          {conv, "--csv"},           {conv, "--chart"},
          {workspace, "--csv"}};
}

TEST_CASE("an output that cannot be written is refused before the work begins") {
  const ScratchDirectory directory;
  const std::string nowhere = directory.File("no/such/folder");
  for (const auto& [args, output_flag] : OutputFlags(directory)) {
    const std::string flag = output_flag;
    CAPTURE(flag);
    for (const std::string& path : {nowhere, directory.path()}) {
      const Outcome outcome = RunNeap(Joined(args, {flag, path}));
      CHECK(outcome.exit_code == 1);
      CHECK(outcome.out == "");
      CHECK(outcome.err.starts_with(absl::StrCat("neap: ", flag, ": ", path)));
    }
  }
  CHECK(fs::is_empty(directory.path()));  // not even a database
}

TEST_CASE("a command that fails neither changes nor creates its output files") {
  const ScratchDirectory directory;
  const std::string old = directory.File("old");
  const std::string missing = directory.File("missing");
  WriteText(old, "old");
  const Args outputs = {"--save", old, "--weights-out", missing, "--budget", "1"};
  CheckRefused(Joined(kTrain, outputs), 1, {"smallest feasible budget"});
  CHECK(ReadText(old) == "old");
  CHECK(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("through a symbolic link its target is written; a device stays a device") {
  const ScratchDirectory directory;
  for (const auto& [args, output_flag] : OutputFlags(directory)) {
    const std::string flag = output_flag;
    CAPTURE(flag);
    const std::string link = directory.File("link");
    const std::string target = directory.File("target");
    for (const std::string& to : {target, std::string("/dev/null")}) {
      fs::create_symlink(to, link);
      const Outcome outcome = RunNeap(Joined(args, {flag, link}));
      INFO(outcome.err);
      CHECK(outcome.exit_code == 0);
      CHECK(fs::is_symlink(fs::symlink_status(link)));
      fs::remove(link);
    }
    CHECK(fs::file_size(target) > 0);
    CHECK(fs::is_character_file("/dev/null"));
    fs::remove(target);
  }
}

TEST_CASE("a FIFO receives the bytes of a file, and one without a reader is an error") {
  const ScratchDirectory directory;
  const std::string fifo = directory.File("fifo");
  const std::string file = directory.File("file");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  REQUIRE(RunNeap(Joined(kTrain, {"--weights-out", file})).exit_code == 0);
  Process reader = Process::StartCommand("/bin/cat", {fifo});
  // The command opens the FIFO at its end, and must find the reader there.
  Outcome outcome;
  do {
    outcome = RunNeap(Joined(kTrain, {"--weights-out", fifo}));
  } while (outcome.exit_code == 1 && outcome.err.find("no process reads") != std::string::npos);
  CHECK(outcome.exit_code == 0);
  CHECK(reader.Wait().out == ReadText(file));
  CHECK(fs::is_fifo(fifo));
  CheckRefused(Joined(kTrain, {"--weights-out", fifo}), 1, {fifo, "no process reads from it"});
}

TEST_CASE("a FIFO whose reader leaves early is an error with the file's name") {
  const ScratchDirectory directory;
  const std::string fifo = directory.File("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  Process reader = Process::StartCommand("/bin/sh", {"-c", "head -c 10 \"$0\"", fifo});
  Outcome outcome;
  do {
    outcome = RunNeap(Joined(kTrain, {"--weights-out", fifo}));
  } while (outcome.exit_code == 1 && outcome.err.find("no process reads") != std::string::npos);
  CHECK(outcome.signal == 0);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err == absl::StrCat("neap: ", fifo, ": write: Broken pipe\n"));
  CHECK(reader.Wait().out.size() == 10);
}

TEST_CASE("a standard output that is no longer read ends a command quietly") {
  const ScratchDirectory directory;
  const std::string fifo = directory.File("fifo");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  // Descriptor 4 writes to the FIFO; descriptor 3, without which opening it would wait for a
  // reader, is its only reader until it is closed.
  const Args shell = {"-c", "exec 3<>\"$0\"; exec 4>\"$0\"; exec 3>&-; exec \"$@\" >&4", fifo,
                      CommandPath()};
  const Args endless = {"train", "lenet",   "--device", "cpu",         "--database",
                        "none",  "--steps", "1000000",  "--log-every", "1"};
  for (const Args& args : {endless, Joined(kPlan, {"--per-step"})}) {
    CAPTURE(args[0]);
    const Outcome outcome = Process::StartCommand("/bin/sh", Joined(shell, args)).Wait();
    CHECK(outcome.signal == 0);
    CHECK(outcome.exit_code == 141);
    CHECK(outcome.err.find("neap: ") == std::string::npos);
  }
}

TEST_CASE("two outputs in one file are refused, even by different paths") {
  const ScratchDirectory directory;
  const std::string file = directory.File("file");
  const std::string link = directory.File("link");
  fs::create_symlink("file", link);
  for (const std::string& other : {file, directory.path() + "/./file", link}) {
    CAPTURE(other);
    CheckRefused(Joined(kPlan, {"--plan-out", file, "--report", other}), 2,
                 {"--report", "would overwrite --plan-out"});
    CheckRefused(Joined(kTrain, {"--save", other, "--trace-out", file}), 2,
                 {"--trace-out", "would overwrite --save"});
    CHECK(!fs::exists(file));
  }
  CheckRefused(Joined(kTrain, {"--save", file + ".tmp", "--weights-out", file}), 2,
               {"--weights-out", "would overwrite --save"});
  const std::string device = directory.File("null");
  fs::create_symlink("/dev/null", device);
  const Args null = {"--plan-out", device, "--report", device};
  CHECK(RunNeap(Joined(kPlan, null)).exit_code == 0);
}

TEST_CASE("an output that would overwrite an input or the standard output is refused") {
  const ScratchDirectory directory;
  const std::string file = directory.File("file");
  WriteText(file, "precious");
  const Args no_database = {"train", "lenet", "--device", "cpu", "--steps", "1"};
  for (const std::string input : {"--batch-file", "--resume", "--weights-in", "--plan"}) {
    for (const std::string output : {"--save", "--weights-out", "--trace-out"}) {
      if (input == "--resume" && output == "--save") continue;  // the one pair that is allowed
      CheckRefused(Joined(no_database, {input, file, output, file}), 2,
                   {output, "would overwrite " + input});
    }
  }
  CheckRefused({"plan", "lenet", "--device", "cpu", "--database", file, "--report", file}, 2,
               {"--report", "would overwrite --database"});
  CheckRefused({"profile", "--merge", file, "--csv", file}, 2,
               {"--csv", "would overwrite --merge"});
  CHECK(ReadText(file) == "precious");
  const Outcome outcome =
      RunNeap(Joined(kPlan, {"--plan-out", "/dev/stdout"}));  // a file, in tests
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("would overwrite the standard output") != std::string::npos);
}

TEST_CASE("a file beyond the process's limit is an error, and the old file stays") {
  const ScratchDirectory directory;
  const std::string file = directory.File("file");
  WriteText(file, "old");
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  Process training = Process::Start(Joined(kTrain, {"--save", file}));
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  const Outcome outcome = training.Wait();
  CHECK(outcome.signal == 0);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err == absl::StrCat("neap: ", file,
                                    ": write: File too large; no checkpoint was written before\n"));
  CHECK(ReadText(file) == "old");
}

TEST_CASE("a failed write to the standard output is exit code 1 for every command") {
  const std::vector<Args> commands = {
      {"--help"},
      {"--version"},
      {"plan", "--help"},
      {"bench", "--help"},
      {"nets"},
      {"nets", "--json"},
      {"devices"},
      {"devices", "--json"},
      kPlan,
      Joined(kPlan, {"--json"}),
      Joined(kPlan, {"--per-step"}),
      kTrain,
      Joined(kTrain, {"--json"}),
      {"profile", "lenet", "--list", "--device", "cpu"},
      {"peak-batch", "lenet", "--device", "cpu", "--budget", "16MiB", "--json"}};
  for (const Args& args : commands) {
    CAPTURE(args[0]);
    CAPTURE(args.back());
    Args shell = {"-c", "exec \"$0\" \"$@\" > /dev/full", CommandPath()};
    const Outcome outcome = Process::StartCommand("/bin/sh", Joined(shell, args)).Wait();
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.err.find("neap: cannot write to the standard output\n") != std::string::npos);
  }
}

}  // namespace
}  // namespace neap::testing
