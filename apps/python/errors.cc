#include "apps/python/errors.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "neap/core/plan/budget_refusal.h"

namespace neap::python {
namespace {

namespace nb = nanobind;

// The exception behind a status that StatusOf() has made on this thread. If no Raise() follows, it
// is not freed before the next one.
struct Cause {
  std::string text;
  PyObject* exception = nullptr;
};
thread_local Cause last_cause;

// Makes it the cause of the exception of a status that has its text.
void AttachCause(const nb::object& error, const std::string& message) {
  nb::object cause = nb::steal(std::exchange(last_cause.exception, nullptr));
  if (cause.is_valid() && absl::StrContains(message, last_cause.text))
    PyException_SetCause(error.ptr(), cause.release().ptr());
}

// str() of an exception, which may raise another one.
std::string TextOf(const nb::object& exception) {
  const nb::object text = nb::steal(PyObject_Str(exception.ptr()));
  if (text.is_valid()) return nb::cast<std::string>(text);
  PyErr_Clear();
  return "an exception without a text";
}

}  // namespace

absl::Status StatusOf(absl::StatusCode code, nb::python_error& error) {
  error.what();  // before Python 3.12, this makes an exception with a traceback of the value
  const nb::object exception = nb::borrow(error.value());
  if (error.traceback().is_valid())
    nb::module_::import_("traceback").attr("clear_frames")(error.traceback());
  const std::string text =
      absl::StrCat(nb::cast<std::string>(error.type().attr("__name__")), ": ", TextOf(exception));
  Py_XDECREF(std::exchange(last_cause.exception, exception.inc_ref().ptr()));
  last_cause.text = text;
  return {code, text};
}

void Raise(const absl::Status& status) {
  const nb::object errors = nb::module_::import_("neap.errors");
  const std::string message(status.message());
  const std::optional<int64_t> smallest = SmallestBudget(status);
  const nb::object error =
      smallest.has_value() ? errors.attr("BudgetError")(message, *smallest)
                           : errors.attr("Error")(message, absl::StatusCodeToString(status.code()));
  AttachCause(error, message);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

}  // namespace neap::python
