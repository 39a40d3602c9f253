#include "apps/python/errors.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>

#include "neap/core/plan/budget_refusal.h"

namespace neap::python {
namespace {

namespace nb = nanobind;

}  // namespace

void Raise(const absl::Status& status) {
  const nb::object errors = nb::module_::import_("neap.errors");
  const std::string message(status.message());
  const std::optional<int64_t> smallest = SmallestBudget(status);
  const nb::object error =
      smallest.has_value() ? errors.attr("BudgetError")(message, *smallest)
                           : errors.attr("Error")(message, absl::StatusCodeToString(status.code()));
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

}  // namespace neap::python
