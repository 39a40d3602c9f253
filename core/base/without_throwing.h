// Exceptions of a program's own functions, as a status. The library throws nothing and lets nothing
// pass that is thrown by what it calls: kernels, layers, planners, data sets and callbacks of the
// program that uses it.
//
//   const absl::Status status = WithoutThrowing("kernel", [&] { return run(step); });
//   // INTERNAL "kernel has thrown: index out of range"
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace neap {

// The result of `call`, a Status or a StatusOr. Errors: RESOURCE_EXHAUSTED if it throws
// std::bad_alloc, INTERNAL if it throws anything else; both name `what` was called.
template <typename Call>
auto WithoutThrowing(std::string_view what, const Call& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(std::string(what), ": no memory of the host"));
  } catch (const std::exception& thrown) {
    return absl::InternalError(absl::StrCat(std::string(what), " has thrown: ", thrown.what()));
  } catch (...) {
    return absl::InternalError(
        absl::StrCat(std::string(what), " has thrown something other than a std::exception"));
  }
}

}  // namespace neap
