#include "apps/train/bad_files.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/output.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {

void BadFiles::Add(const absl::Status& error) {
  const std::lock_guard lock(mutex_);
  added_.emplace(error.message());
}

absl::StatusOr<std::vector<std::string>> BadFiles::TakeNew(Communicator* communicator) {
  std::set<std::string> added;
  {
    const std::lock_guard lock(mutex_);
    added = std::exchange(added_, {});
  }
  if (communicator != nullptr) {
    ASSIGN_OR_RETURN(
        const std::vector<std::string> ranks,
        communicator->Exchange(Json(added).dump(-1, ' ', false, Json::error_handler_t::replace),
                               Communicator::Patience::kForFiles));
    added.clear();
    for (const std::string& rank : ranks)
      added.merge(Json::parse(rank).get<std::set<std::string>>());
  }
  std::vector<std::string> fresh;
  for (const std::string& error : added)
    if (taken_.insert(error).second) fresh.push_back(error);
  return fresh;
}

bool BadFiles::Has(const std::string& file) {
  const std::lock_guard lock(mutex_);
  const std::string begin = absl::StrCat(file, ": ");
  const auto error = added_.lower_bound(begin);
  return error != added_.end() && absl::StartsWith(*error, begin);
}

std::string BadFilesText(const std::vector<std::string>& errors, int64_t all) {
  std::string text =
      absl::StrCat("skipped ", errors.size(), " files that cannot be decoded, ", all, " in all\n");
  for (const std::string& error : errors) absl::StrAppend(&text, "  ", error, "\n");
  return text;
}

}  // namespace neap::apps
