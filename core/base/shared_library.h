// A shared library that is loaded when it is first needed, for what only some machines have: a
// program that could use it starts without it.
//
//   ASSIGN_OR_RETURN(SharedLibrary nccl, SharedLibrary::Open({"libnccl.so.2"}));
//   decltype(&ncclGetUniqueId) get_unique_id = nullptr;
//   nccl.Find("ncclGetUniqueId", get_unique_id);
//   RETURN_IF_ERROR(nccl.FoundAll());
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace neap {

class SharedLibrary {
 public:
  // Takes the first place that exists: a name is looked for like any library, in LD_LIBRARY_PATH
  // and where the system installs libraries; a path is taken as it is, an empty one left out. The
  // library stays loaded until the process ends. Errors: NOT_FOUND with the loader's reason for the
  // first place.
  static absl::StatusOr<SharedLibrary> Open(std::initializer_list<const char*> places);

  // Sets `function` to the function with this name, or to null.
  template <typename Function>
  void Find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(Address(name));
  }
  // Errors: NOT_FOUND naming the functions that the library does not have.
  absl::Status FoundAll() const;

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}
  void* Address(const char* name);

  std::string name_;
  void* handle_;
  std::string missing_;
};

}  // namespace neap
