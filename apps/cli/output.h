// Output of results: the standard output, and files that are written completely or not at all.
//
// A command checks before its work begins that its files can be written, so that hours of training
// are not lost to a misspelled folder.
//
//   RETURN_IF_ERROR(CheckOutputs({{"--plan-out", plan_out}, {"--report", report}}));
//
// Whether all of the standard output was written is checked at the end of main()
// (apps/cli/outcome.h).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace neap::apps {

using Json = nlohmann::ordered_json;

// The text that a table has in place of an absent value.
inline constexpr char kNothing[] = "-";

// The value as JSON, or null if it is absent.
template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

void Print(const std::string& text);
// Print() and PrintJson() of this thread print nothing from now on.
void SilenceThread();
// Prints the object on one line.
void PrintJson(const Json& object);
// Quotes the text if CSV requires it (RFC 4180); names of layers and engines may hold anything.
std::string CsvField(const std::string& text);
// Quotes the text if a shell requires it.
std::string ShellWord(const std::string& text);
// Errors: those of AtomicFile.
absl::Status WriteTextFile(const std::string& path, const std::string& text);

// A file that a flag names; the path is empty if the flag was not given.
struct NamedFile {
  std::string flag;
  std::string path;
  // For an input: the flag of the one output that may overwrite it (--resume FILE --save FILE).
  std::string overwritten_by = {};
};
// Checks that `outputs` would not overwrite each other, the file that the standard output is
// redirected to, or one of `inputs`. Errors: BadUsage() naming the two flags.
absl::Status CheckOutputsApart(const std::vector<NamedFile>& outputs,
                               const std::vector<NamedFile>& inputs);
// Checks that they can be written. Changes no file. Errors: those of AtomicFile with the flag.
absl::Status CheckOutputsWritable(const std::vector<NamedFile>& outputs);
// Checks both.
absl::Status CheckOutputs(const std::vector<NamedFile>& outputs,
                          const std::vector<NamedFile>& inputs = {});

}  // namespace neap::apps
