// Runs the built `neap` as a process of its own, as a user does.
//
//   const Outcome outcome = RunNeap({"plan", "alexnet", "--json"});
//   CHECK(outcome.exit_code == 0);
//
//   Process training = Process::Start({"train", "lenet", "--save", file});
//   training.Signal(SIGINT);
//   CHECK(training.Wait().exit_code == 130);
#pragma once

#include <doctest/doctest.h>
#include <sys/types.h>

#include <cstdint>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/scratch_directory.h"
#include "tests/source_tree.h"

namespace neap::testing {

// What a command says on stderr when it is told to stop.
inline constexpr char kStopping[] =
    "neap: stopping after the current step or measurement; Ctrl-C again stops at once\n";

// The command that is run: NEAP_COMMAND, or that of the build which these tests are part of.
std::string CommandPath();

struct Outcome {
  int exit_code = -1;  // of a process that ended by itself
  int signal = 0;      // that ended it
  std::string out;
  std::string err;
};

// Whether the machine has pseudo-terminals; a container may have none.
bool HasTerminals();

class Process {
 public:
  static Process Start(const std::vector<std::string>& args);
  // Another command, by its path.
  static Process StartCommand(const std::string& path, const std::vector<std::string>& args);
  // `neap` with a terminal for stderr, whose lines end as they were written. Of 0 columns, nobody
  // knows how wide it is. Fails where HasTerminals() is false.
  static Process StartOnTerminal(const std::vector<std::string>& args, uint16_t columns = 0);
  // `neap` as it is started by who ignores the signal.
  static Process StartIgnoring(int signal, const std::vector<std::string>& args);
  pid_t id() const { return pid_; }
  void Signal(int signal) const;
  bool Running();
  // What it has printed so far.
  std::string Output() const;
  std::string Errors() const;
  // Until stderr has this. Fails where the process ends without.
  void AwaitErrors(const std::string& text);
  Outcome Wait();

 private:
  Process() = default;
  // `terminal` of -1: its own stderr, a file. `ignored`: a signal; 0: none.
  void Launch(const std::string& path, const std::vector<std::string>& args, int terminal,
              int ignored = 0);

  pid_t pid_ = 0;
  int status_ = 0;
  bool ended_ = false;
  std::unique_ptr<ScratchDirectory> directory_ = std::make_unique<ScratchDirectory>();
  std::future<void> copying_;  // from the terminal to where Errors() reads
};

Outcome RunNeap(const std::vector<std::string>& args);

// The JSON objects that a successful command prints, one per line.
std::vector<nlohmann::json> RunForJson(std::vector<std::string> args);

// Fails unless the command ends with `exit_code`, nothing but one line on stderr, and each of
// `words` in that line.
void CheckRefused(const std::vector<std::string>& args, int exit_code,
                  const std::vector<std::string>& words);

// The fields of every line of a CSV file in which none has a comma.
std::vector<std::vector<std::string>> ReadCsv(const std::string& path);

// Whether this build has cuDNN, which alone knows the engines of a GPU that is not here.
bool KnowsEnginesOfH200();

// A command line with more flags.
inline std::vector<std::string> Joined(std::vector<std::string> first,
                                       const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline std::string Digits() { return (SourceTree() / "examples/data/digits").string(); }

}  // namespace neap::testing
