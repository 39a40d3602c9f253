#include "apps/output.h"

#include <cstddef>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "neap/core/file.h"
#include "neap/core/status_macros.h"

namespace neap::apps {

void Print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJson(const Json& object) {
  Print(object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  std::fflush(stdout);
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

absl::Status WriteTextFile(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file.WriteAt(
      0, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size())));
  return file.Commit();
}

}  // namespace neap::apps
