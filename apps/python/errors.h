// Statuses as Python exceptions: neap.Error, or neap.BudgetError for a budget that is too small.
// And exceptions of Python code that the library calls, as statuses.
// All functions are to be called with the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace neap::python {

// Throws the exception of a status that is not OK (apps/python/neap/errors.py).
[[noreturn]] void Raise(const absl::Status& status);

inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}

template <typename T>
T Checked(absl::StatusOr<T> result) {
  if (!result.ok()) Raise(result.status());
  return *std::move(result);
}

// The status of this code for an exception that Python code has raised. A Raise() of it on the same
// thread makes that exception the cause of its own, so that both are shown with their tracebacks.
// The frames of the exception let go of their variables, which may be views of an operand's memory.
absl::Status StatusOf(absl::StatusCode code, nanobind::python_error& error);

// The result of `run()`, or the status of what it throws.
template <typename Function>
absl::StatusOr<std::invoke_result_t<Function>> Caught(absl::StatusCode code, Function&& run) {
  try {
    return std::forward<Function>(run)();
  } catch (nanobind::python_error& error) {
    return StatusOf(code, error);
  } catch (const std::exception& error) {
    return absl::Status(code, error.what());
  }
}

}  // namespace neap::python
