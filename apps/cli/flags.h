// The flags of one subcommand: a table from which arguments are read and the help text is written.
//
// Each subcommand has flags of its own, so there is no global registry: a FlagSet is filled, parsed
// and forgotten. What the table says (names, ranges, choices, defaults) is said once, so --help
// cannot drift from what is accepted.
//
//   FlagSet flags("neap plan NET [flags]", "Plans one training iteration.");
//   flags.Positional("NET", "a network", &net);
//   flags.Add("budget", "BYTES", "what the arena may take", Budget(&budget));
//   flags.Add("json", "print one JSON object", &json);
//   RETURN_IF_ERROR(flags.Parse(args));
//   if (flags.help()) ...
//
// Accepted: --name value, --name=value, --switch. The last one wins. *Errors*: BadUsage()
// (apps/cli/outcome.h) naming the flag; an unknown flag comes with the closest known one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace neap::apps {

// Reads one flag's text. `default_text` and `choices` are for the help text alone.
struct FlagValue {
  std::function<absl::Status(const std::string& text)> read;
  std::string default_text = {};
  std::vector<std::string> choices = {};
};

FlagValue Text(std::string* value);
// May be given more than once.
FlagValue Texts(std::vector<std::string>* values);
// "12GiB", "64KB", "4096".
FlagValue ReadBytes(std::optional<int64_t>* bytes);
// "8MiB,64MiB", "100,200": rising, each once. What is there before is shown as the default.
FlagValue BytesList(size_t most_values, std::vector<int64_t>* values);
FlagValue IntegerList(int64_t least, int64_t most, size_t most_values,
                      std::vector<int64_t>* values);
FlagValue OneOf(std::vector<std::string> choices, std::string* value);
// [least, most], both included.
FlagValue Integer(int64_t least, int64_t most, std::optional<int64_t>* value);
FlagValue Integer(int64_t least, int64_t most, int64_t* value);
FlagValue Real(double least, double most, float* value);

class FlagSet {
 public:
  FlagSet(std::string usage, std::string about)
      : usage_(std::move(usage)), about_(std::move(about)) {}

  // A flag that takes a value, shown as `placeholder`.
  void Add(std::string name, std::string placeholder, std::string help, FlagValue value);
  // A switch.
  void Add(std::string name, std::string help, bool* value);
  // The one argument without a name that must be there, or may. `help` says what it is: "a file".
  void Positional(std::string name, std::string help, std::string* value);
  void OptionalPositional(std::string name, std::string help, std::string* value);
  // One or more.
  void Positional(std::string name, std::string help, std::vector<std::string>* values);

  // With --help anywhere, nothing else is looked at.
  absl::Status Parse(const std::vector<std::string>& args);
  bool help() const { return help_; }
  // Whether the flag was among the arguments.
  bool Given(const std::string& name) const;
  std::string HelpText() const;

 private:
  struct Flag {
    std::string name;
    std::string placeholder;  // empty: a switch
    std::string help;
    FlagValue value;
  };
  absl::Status ParseFlag(const std::vector<std::string>& args, size_t& i);
  absl::Status ParsePositional(const std::string& text);
  absl::Status Unknown(const std::string& name) const;
  const Flag* Find(const std::string& name) const;

  std::string usage_;
  std::string about_;
  std::vector<Flag> flags_;
  std::string positional_;
  std::string positional_help_;
  std::function<void(const std::string& text)> take_positional_;
  bool positional_repeats_ = false;
  bool positional_is_optional_ = false;
  bool positional_given_ = false;
  std::vector<std::string> given_;
  bool help_ = false;
};

// Of `known`, the one that takes the fewest insertions, deletions and replacements to become
// `text`; empty if even that one is nothing like it.
std::string Closest(const std::string& text, const std::vector<std::string>& known);

}  // namespace neap::apps
