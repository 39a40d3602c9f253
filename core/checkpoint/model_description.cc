#include "neap/core/checkpoint/model_description.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/utf8.h"
#include "neap/core/checkpoint/safetensors.h"

namespace neap {
namespace {

using Json = nlohmann::json;

constexpr const char* kNetKey = "neap.net";
constexpr const char* kFlagsKey = "neap.net_flags";
constexpr const char* kClassesKey = "neap.classes";

absl::StatusOr<Json> Parsed(const std::string& path, const FileMetadata& metadata,
                            const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return Json();
  Json json = Json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!json.is_discarded()) return json;
  return absl::DataLossError(absl::StrCat(path, ": the metadata '", key, "' are no JSON"));
}

absl::StatusOr<std::vector<std::string>> Texts(const std::string& path,
                                               const FileMetadata& metadata, const char* key) {
  ASSIGN_OR_RETURN(const Json list, Parsed(path, metadata, key));
  std::vector<std::string> texts;
  if (list.is_null()) return texts;
  bool is_list = list.is_array();
  for (size_t i = 0; is_list && i < list.size(); ++i) {
    is_list = list[i].is_string();
    if (is_list) texts.push_back(list[i]);
  }
  if (is_list) return texts;
  return absl::DataLossError(absl::StrCat(path, ": the metadata '", key, "' are no list of texts"));
}

}  // namespace

FileMetadata ToMetadata(const ModelDescription& model) {
  const auto are_utf8 = [](const std::vector<std::string>& texts) {
    return !texts.empty() && std::all_of(texts.begin(), texts.end(), IsUtf8);
  };
  FileMetadata metadata;
  if (are_utf8({model.net}) && !model.net.empty()) metadata[kNetKey] = Json(model.net).dump();
  if (are_utf8(model.flags)) metadata[kFlagsKey] = Json(model.flags).dump();
  if (are_utf8(model.classes)) metadata[kClassesKey] = Json(model.classes).dump();
  return metadata;
}

absl::StatusOr<ModelDescription> ReadModelDescription(const std::string& path) {
  ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  const FileMetadata& metadata = reader.metadata();
  ModelDescription model;
  ASSIGN_OR_RETURN(const Json net, Parsed(path, metadata, kNetKey));
  if (net.is_string()) model.net = net;
  ASSIGN_OR_RETURN(model.flags, Texts(path, metadata, kFlagsKey));
  ASSIGN_OR_RETURN(model.classes, Texts(path, metadata, kClassesKey));
  return model;
}

}  // namespace neap
