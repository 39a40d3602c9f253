// The memory of external tensors (Home::kExternal): persistent tensors of a session that lie at
// addresses of the caller's, where steps read and write them in place.
//
// The values have the tensor's own type and layout: elements are contiguous, in the network's
// layout (TensorSpec of Program::tensors). The caller keeps the memory until the session is
// destroyed, and neither reads nor writes it while a step is in flight: its own work there, such as
// kernels on a stream of its own, has ended before it calls the session.
//
//   const std::vector<ExternalTensor> given = {{"conv1.weight", weight, 64 * 3 * 7 * 7 * 4}};
//   ASSIGN_OR_RETURN(const ExternalAddresses addresses, AddressesOf(given, program));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/home.h"
#include "neap/core/program/program.h"

namespace neap {

struct ExternalTensor {
  std::string tensor;    // by its name in the program
  void* data = nullptr;  // in the device's memory, aligned to kExternalAlignment
  int64_t size_bytes = 0;
};

// By TensorId: where an external tensor is; null for others, and if the vector is shorter.
using ExternalAddresses = std::vector<std::byte*>;
std::byte* AddressIn(const ExternalAddresses& addresses, TensorId tensor);

// The homes that these tensors have.
Homes HomesOf(const std::vector<ExternalTensor>& given);

// Errors: INVALID_ARGUMENT, naming the tensor, for one of the program's external tensors that has
// no memory, or memory of another size than its own, that is null, not aligned, or overlaps that of
// another.
absl::StatusOr<ExternalAddresses> AddressesOf(const std::vector<ExternalTensor>& given,
                                              const Program& program);

}  // namespace neap
