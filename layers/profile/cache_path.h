// The folder where neap keeps what it has found out, unless it is told another one.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace neap {

// A file in $XDG_CACHE_HOME/neap, or in ~/.cache/neap if that is no absolute path. Errors:
// NOT_FOUND if HOME is not set, either.
absl::StatusOr<std::string> CachePath(std::string_view file);

}  // namespace neap
