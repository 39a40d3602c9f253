// The flags of one subcommand: a table that parses the arguments and prints the help text.
//
// Each subcommand has flags of its own, so there is no global registry: a FlagSet is filled, used
// to parse, and discarded. Names, ranges, choices and defaults are written once, in the table, so
// that --help always agrees with what is accepted.
//
//   FlagSet flags("neap plan NET [flags]", "Plans one training iteration.");
//   flags.Positional("NET", "a network", &net);
//   flags.Add("budget", "BYTES", "device memory for everything", ReadBytes(&budget_bytes));
//   flags.Add("json", "print one JSON object", &json);
//   RETURN_IF_ERROR(flags.Parse(args));
//   if (flags.help()) return PrintHelp(flags);
//
// Accepted forms are --name value, --name=value and --switch; if a flag is repeated, the last value
// counts. BYTES may be two arguments: --budget 12 GiB. Long help texts have sections, which
// apps/cli/flag_names.h knows. *Errors*: BadUsage() (apps/cli/outcome.h) naming the flag; for an
// unknown flag, also the known flag that is meant or closest to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "apps/cli/outcome.h"

namespace neap::apps {

// Parses one flag's text. `default_text` and `choices` appear only in the help text.
struct FlagValue {
  std::function<absl::Status(const std::string& text)> read;
  std::string default_text = {};
  std::vector<std::string> choices = {};
};

FlagValue Text(std::string* value);
// May be given more than once.
FlagValue Texts(std::vector<std::string>* values);
// "12GiB", "64KB", "4096"; at least `least` bytes.
FlagValue ReadBytes(std::optional<int64_t>* bytes, int64_t least = 1);
// "8MiB,64MiB", "100,200": sorted, without duplicates. The initial list is shown as the default.
FlagValue BytesList(size_t most_values, std::vector<int64_t>* values);
FlagValue IntegerList(int64_t least, int64_t most, size_t most_values,
                      std::vector<int64_t>* values);
FlagValue OneOf(std::vector<std::string> choices, std::string* value);
// One of these values of an enum, by its Name(). `parse` has the error for any other text.
template <typename T>
FlagValue OneOf(absl::Span<const T> known, absl::StatusOr<T> (*parse)(std::string_view), T* value) {
  const auto read = [parse, value](const std::string& text) {
    const absl::StatusOr<T> parsed = parse(text);
    if (!parsed.ok()) return AsBadUsage(parsed.status());
    *value = *parsed;
    return absl::OkStatus();
  };
  std::vector<std::string> choices;
  for (const T one : known) choices.emplace_back(Name(one));
  return {.read = read, .default_text = std::string(Name(*value)), .choices = choices};
}
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
  // The one argument without a name, required or optional. `help` says what it is: "a file".
  void Positional(std::string name, std::string help, std::string* value);
  void OptionalPositional(std::string name, std::string help, std::string* value);
  // One or more, or any number.
  void Positional(std::string name, std::string help, std::vector<std::string>* values);
  void OptionalPositional(std::string name, std::string help, std::vector<std::string>* values);

  // If --help is among the arguments, nothing else is parsed.
  absl::Status Parse(const std::vector<std::string>& args);
  bool help() const { return help_; }
  bool Has(const std::string& name) const { return Find(name) != nullptr; }
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
  static std::string LineOf(const Flag& flag);  // of the help text

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

// Prints the help text. Returns 0, the exit code.
int PrintHelp(const FlagSet& flags);

// The known word with the smallest edit distance to `text` (insertions, deletions, replacements);
// empty if none is similar.
std::string Closest(const std::string& text, const std::vector<std::string>& known);

}  // namespace neap::apps
