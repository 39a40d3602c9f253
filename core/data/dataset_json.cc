#include "neap/core/data/dataset_json.h"

#include <filesystem>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/file.h"
#include "neap/core/base/json_fields.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap {
namespace {

constexpr int64_t kMaxDatasetBytes = 64 * kMiB;

}  // namespace

absl::StatusOr<std::optional<int32_t>> IgnoredLabel(const std::string& directory) {
  using Json = JsonFields::Json;
  const std::string path = (std::filesystem::path(directory) / "dataset.json").string();
  const absl::StatusOr<ReadableFile> file = ReadableFile::Open(path);
  if (absl::IsNotFound(file.status())) return std::nullopt;
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const std::string text, file->ReadAll(kMaxDatasetBytes));
  ASSIGN_OR_RETURN(const Json dataset, ParseJson(text, path.c_str()));
  const bool has_labels =
      dataset.is_object() && dataset.contains("labels") && dataset.at("labels").is_object();
  if (!has_labels || !dataset.at("labels").contains("ignore")) return std::nullopt;
  const Json& ignored = dataset.at("labels").at("ignore");
  const bool is_label = ignored.is_number_unsigned() &&
                        ignored.get<uint64_t>() <= std::numeric_limits<int32_t>::max();
  if (is_label) return ignored.get<int32_t>();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": the label 'ignore' is ", ignored.dump(), ", not a number from 0"));
}

}  // namespace neap
