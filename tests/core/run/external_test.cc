#include "neap/core/run/external.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

Program WithExternalTensors(size_t count) {
  Program program;
  for (size_t i = 0; i < count; ++i) {
    program.tensors.push_back({.id = TensorId(i),
                               .name = absl::StrCat("layer", i, ".weight"),
                               .role = Role::kParam,
                               .spec = {.shape = Shape{4}},
                               .home = i % 2 == 0 ? Home::kExternal : Home::kArena});
  }
  return program;
}

TEST_CASE("the addresses of external tensors are found by their names, however many there are") {
  const Program program = WithExternalTensors(60'000);
  std::vector<std::byte> memory((program.tensors.size() + 1) * kExternalAlignment);
  const auto place = reinterpret_cast<uintptr_t>(memory.data());
  std::byte* const first =
      memory.data() + (kExternalAlignment - place % kExternalAlignment) % kExternalAlignment;
  std::vector<ExternalTensor> given;
  for (size_t i = program.tensors.size(); i-- > 0;)
    given.push_back({program.tensors[i].name, first + i * kExternalAlignment, 4 * sizeof(float)});
  given.push_back({"layer0.weight", nullptr, 0});  // the first of this name counts
  const ExternalAddresses addresses = AddressesOf(given, program).value();
  REQUIRE(addresses.size() == program.tensors.size());
  for (size_t i = 0; i < addresses.size(); ++i)
    REQUIRE(addresses[i] == (i % 2 == 0 ? first + i * kExternalAlignment : nullptr));
  given.erase(given.end() - 2);  // that of layer0
  CHECK(std::string(AddressesOf(given, program).status().message()) ==
        "the memory of the external tensor 'layer0.weight' is null");
  given.pop_back();
  CHECK(std::string(AddressesOf(given, program).status().message()) ==
        "the external tensor 'layer0.weight' is given no memory");
}

}  // namespace
}  // namespace neap
