// Where results go: the standard output, and files that are written whole or not at all.
//
// A command asks before its work begins whether its files can be written: hours of training must
// not end with a misspelled folder.
//
//   RETURN_IF_ERROR(CheckOutputs({{"--plan-out", plan_out}, {"--report", report}}));
//
// Whether the standard output took everything is asked at the end of main() (apps/cli/outcome.h).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace neap::apps {

using Json = nlohmann::ordered_json;

void Print(const std::string& text);
// The object on a line of its own.
void PrintJson(const Json& object);
// In quotes where CSV wants it (RFC 4180): names of layers and engines are anybody's.
std::string CsvField(const std::string& text);
// In quotes where a shell wants it.
std::string ShellWord(const std::string& text);
// Errors: as AtomicFile.
absl::Status WriteTextFile(const std::string& path, const std::string& text);

// A file that a flag names; an empty path stands for a flag that was not given.
struct NamedFile {
  std::string flag;
  std::string path;
};
// Whether `outputs` can be written and would not overwrite each other, what the standard output
// goes to, or one of `inputs`. Leaves all of them as they are. An output may be given as an input
// too, by leaving it out there: --resume FILE --save FILE.
// Errors: BadUsage() naming the two flags; those of AtomicFile with the flag.
absl::Status CheckOutputs(const std::vector<NamedFile>& outputs,
                          const std::vector<NamedFile>& inputs = {});

}  // namespace neap::apps
