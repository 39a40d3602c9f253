// Element types and devices as arguments of Python: by neap's names, or as PyTorch and NumPy have
// them.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "neap/core/base/tensor.h"

namespace neap::python {

// "fp32" as the command names it, "float32", torch.float32 or numpy.float32.
struct DTypeName {
  std::string text;  // without PyTorch's "torch."

  // Throws apps/python/errors.h.
  DType Parsed() const;
};

// "cuda:1" as the command names it, "cuda", 1, or a torch.device.
struct DeviceName {
  std::string text;  // as the command names it
};

// Throw Python's exceptions.
DTypeName ToDTypeName(nanobind::handle given);
DeviceName ToDeviceName(nanobind::handle given);

}  // namespace neap::python

namespace nanobind::detail {

template <>
struct type_caster<neap::python::DTypeName> {
  NB_TYPE_CASTER(neap::python::DTypeName, const_name("str | object"))

  bool from_python(handle given, uint8_t, cleanup_list*) noexcept {
    try {
      value = neap::python::ToDTypeName(given);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
};

template <>
struct type_caster<neap::python::DeviceName> {
  NB_TYPE_CASTER(neap::python::DeviceName, const_name("str | int | object"))

  bool from_python(handle given, uint8_t, cleanup_list*) noexcept {
    try {
      value = neap::python::ToDeviceName(given);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
};

}  // namespace nanobind::detail
