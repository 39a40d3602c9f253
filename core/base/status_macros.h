// Early return on absl::Status errors.
//
//   ASSIGN_OR_RETURN(auto device, CpuDevice::Open());
//   RETURN_IF_ERROR(session.Save("model.safetensors"));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#ifndef RETURN_IF_ERROR
#define RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                  \
    if (absl::Status neap_status = (expression); !neap_status.ok()) return neap_status; \
  } while (false)
#endif

#ifndef ASSIGN_OR_RETURN
#define NEAP_CONCAT_INNER(a, b) a##b
#define NEAP_CONCAT(a, b) NEAP_CONCAT_INNER(a, b)
#define NEAP_ASSIGN_OR_RETURN(result, declaration, expression) \
  auto result = (expression);                                  \
  if (!result.ok()) return std::move(result).status();         \
  declaration = std::move(result).value()
#define ASSIGN_OR_RETURN(declaration, expression) \
  NEAP_ASSIGN_OR_RETURN(NEAP_CONCAT(neap_result_, __LINE__), declaration, expression)
#endif
