#include "neap/core/run/external.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

absl::Status CheckMemory(const ExternalTensor& given, const Tensor& tensor) {
  const auto error = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the memory of the external tensor '", tensor.name, "' ", what...));
  };
  if (given.data == nullptr) return error("is null");
  if (given.size_bytes != tensor.spec.size_bytes()) {
    return error("has ", given.size_bytes, " bytes, but the tensor, ", tensor.spec.ToString(),
                 ", has ", tensor.spec.size_bytes());
  }
  if (reinterpret_cast<uintptr_t>(given.data) % kExternalAlignment != 0)
    return error("is not aligned to ", kExternalAlignment, " bytes");
  return absl::OkStatus();
}

absl::Status CheckDisjoint(std::vector<const ExternalTensor*> given) {
  const auto begin = [](const ExternalTensor* one) {
    return reinterpret_cast<uintptr_t>(one->data);
  };
  std::sort(given.begin(), given.end(),
            [&](const auto* a, const auto* b) { return begin(a) < begin(b); });
  for (size_t i = 1; i < given.size(); ++i) {
    const auto bytes = static_cast<uintptr_t>(given[i - 1]->size_bytes);
    if (begin(given[i]) - begin(given[i - 1]) >= bytes) continue;
    return absl::InvalidArgumentError(absl::StrCat("the memory of the external tensors '",
                                                   given[i - 1]->tensor, "' and '",
                                                   given[i]->tensor, "' overlaps"));
  }
  return absl::OkStatus();
}

}  // namespace

std::byte* AddressIn(const ExternalAddresses& addresses, TensorId tensor) {
  return tensor.index() < addresses.size() ? addresses[tensor.index()] : nullptr;
}

Homes HomesOf(const std::vector<ExternalTensor>& given) {
  Homes homes;
  for (const ExternalTensor& one : given) homes.push_back({one.tensor, Home::kExternal});
  return homes;
}

absl::StatusOr<ExternalAddresses> AddressesOf(const std::vector<ExternalTensor>& given,
                                              const Program& program) {
  absl::flat_hash_map<std::string_view, const ExternalTensor*> named;
  for (const ExternalTensor& one : given) named.emplace(one.tensor, &one);
  ExternalAddresses addresses(program.tensors.size(), nullptr);
  std::vector<const ExternalTensor*> used;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.home != Home::kExternal) continue;
    const auto memory = named.find(tensor.name);
    if (memory == named.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the external tensor '", tensor.name, "' is given no memory"));
    }
    RETURN_IF_ERROR(CheckMemory(*memory->second, tensor));
    addresses[tensor.id.index()] = static_cast<std::byte*>(memory->second->data);
    used.push_back(memory->second);
  }
  RETURN_IF_ERROR(CheckDisjoint(std::move(used)));
  return addresses;
}

}  // namespace neap
