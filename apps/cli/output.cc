#include "apps/cli/output.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "apps/cli/outcome.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

absl::Status CheckApart(const NamedFile& output, const NamedFile& other) {
  if (output.path.empty() || other.path.empty() || other.overwritten_by == output.flag ||
      !OverwriteEachOther(output.path, other.path)) {
    return absl::OkStatus();
  }
  return BadUsage(absl::StrCat(output.flag, " ", output.path, " would overwrite ", other.flag,
                               other.path == output.path ? "" : " " + other.path));
}

thread_local bool is_silenced = false;

}  // namespace

void SilenceThread() { is_silenced = true; }

void Print(const std::string& text) {
  if (!is_silenced) std::fwrite(text.data(), 1, text.size(), stdout);
}

void PrintJson(const Json& object) {
  Print(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  std::fflush(stdout);
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string ShellWord(const std::string& text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("_./:,+@%=-").find(c) != absl::string_view::npos;
  });
  if (is_plain && !text.empty()) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

absl::Status WriteTextFile(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file.WriteAt(
      0, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size())));
  return file.Commit();
}

absl::Status CheckOutputsApart(const std::vector<NamedFile>& outputs,
                               const std::vector<NamedFile>& inputs) {
  std::vector<NamedFile> others = inputs;
  others.push_back({"the standard output,", "/dev/stdout"});
  others.push_back({"the standard error output,", "/dev/stderr"});
  for (const NamedFile& output : outputs) {
    if (output.path.empty()) continue;
    for (const NamedFile& other : others) RETURN_IF_ERROR(CheckApart(output, other));
    others.push_back(output);
  }
  return absl::OkStatus();
}

absl::Status CheckOutputsWritable(const std::vector<NamedFile>& outputs) {
  for (const NamedFile& output : outputs) {
    if (output.path.empty()) continue;
    const absl::Status writable = CheckWritable(output.path);
    if (!writable.ok())
      return absl::Status(writable.code(), absl::StrCat(output.flag, ": ", writable.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const std::vector<NamedFile>& outputs,
                          const std::vector<NamedFile>& inputs) {
  RETURN_IF_ERROR(CheckOutputsApart(outputs, inputs));
  return CheckOutputsWritable(outputs);
}

}  // namespace neap::apps
