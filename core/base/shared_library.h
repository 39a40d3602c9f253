// A shared library that is loaded when it is first needed, for what only some machines have: a
// program that could use it starts without it.
//
//   ASSIGN_OR_RETURN(SharedLibrary math, SharedLibrary::Open("libm.so.6", "no libm"));
//   double (*cube_root)(double) = nullptr;
//   math.Find("cbrt", cube_root);
//   RETURN_IF_ERROR(math.FoundAll());
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace neap {

class SharedLibrary {
 public:
  // Looks for the name as for any library that this program is linked with: in LD_LIBRARY_PATH, in
  // the program's RUNPATH, and where the system has libraries. It stays loaded until the process
  // ends. Errors: NOT_FOUND with `absence`, which tells the user what is missing, and the loader's
  // reason.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name, const std::string& absence);

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
