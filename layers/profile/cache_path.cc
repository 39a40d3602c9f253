#include "neap/layers/profile/cache_path.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace neap {

absl::StatusOr<std::string> CachePath(std::string_view file) {
  const std::string name(file);
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return absl::StrCat(cache, "/neap/", name);
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return absl::StrCat(home, "/.cache/neap/", name);
  return absl::NotFoundError(
      absl::StrCat("no place for ", name, ": neither XDG_CACHE_HOME nor HOME is set"));
}

}  // namespace neap
