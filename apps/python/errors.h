// Statuses as Python exceptions: neap.Error, or neap.BudgetError for a budget that is too small.
// All functions are to be called with the GIL.
#pragma once

#include <nanobind/nanobind.h>

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

}  // namespace neap::python
