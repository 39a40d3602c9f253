#include "neap/core/base/shared_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace neap {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const std::string& name,
                                                  const std::string& absence) {
  if (void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr)
    return SharedLibrary(name, handle);
  const char* const reason = dlerror();
  return absl::NotFoundError(absl::StrCat(absence, ": ", reason != nullptr ? reason : name));
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
