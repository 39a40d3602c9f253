#include "neap/core/base/shared_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace neap {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(std::initializer_list<const char*> places) {
  std::string reason;
  for (const char* const place : places) {
    if (*place == '\0') continue;
    if (void* const handle = dlopen(place, RTLD_NOW | RTLD_LOCAL); handle != nullptr)
      return SharedLibrary(place, handle);
    if (const char* const error = dlerror(); reason.empty() && error != nullptr) reason = error;
  }
  return absl::NotFoundError(reason);
}

absl::Status SharedLibrary::FoundAll() const {
  if (missing_.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(name_, " has no ", missing_));
}

void* SharedLibrary::Address(const char* name) {
  void* const address = dlsym(handle_, name);
  if (address == nullptr) absl::StrAppend(&missing_, missing_.empty() ? "" : ", ", name);
  return address;
}

}  // namespace neap
