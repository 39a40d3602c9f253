// Where results go: the standard output, and files that are written whole or not at all.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace neap::apps
