#include "neap/core/base/shared_library.h"

#include <doctest/doctest.h>

#include <string>

namespace neap::testing {
namespace {

TEST_CASE("a library's functions are found by name") {
  absl::StatusOr<SharedLibrary> math = SharedLibrary::Open("libm.so.6", "no libm");
  REQUIRE_MESSAGE(math.ok(), math.status().ToString());
  double (*square_root)(double) = nullptr;
  math->Find("sqrt", square_root);
  REQUIRE(math->FoundAll().ok());
  CHECK(square_root(9) == 3);
}

TEST_CASE("functions that a library does not have are named") {
  absl::StatusOr<SharedLibrary> math = SharedLibrary::Open("libm.so.6", "no libm");
  REQUIRE(math.ok());
  double (*missing)(double) = nullptr;
  double (*found)(double) = nullptr;
  math->Find("none_of_neap", missing);
  math->Find("sqrt", found);
  math->Find("other_of_neap", missing);
  CHECK((missing == nullptr && found != nullptr));
  CHECK(absl::IsNotFound(math->FoundAll()));
  CHECK(math->FoundAll().message() == "libm.so.6 has no none_of_neap, other_of_neap");
}

TEST_CASE("a library that is nowhere is not found, for the loader's reason") {
  const absl::Status missing = SharedLibrary::Open("libnone_of_neap.so", "it is absent").status();
  CHECK(absl::IsNotFound(missing));
  CHECK(std::string(missing.message()).find("it is absent: libnone_of_neap.so: ") == 0);
}

}  // namespace
}  // namespace neap::testing
