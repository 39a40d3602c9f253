#include "neap/memory/placement/placement_method.h"

#include <doctest/doctest.h>

#include <string>

namespace neap {
namespace {

TEST_CASE("a placement is parsed from its name, and others are refused with those there are") {
  for (const PlacementMethod method : kPlacementMethods)
    CHECK(ParsePlacementMethod(Name(method)).value() == method);
  CHECK(Name(PlacementMethod::kFirstFit) == "first-fit");
  CHECK(Name(PlacementMethod::kExactFitFirstFit) == "exact-fit-first-fit");
  CHECK(Name(PlacementMethod::kOffline) == "offline");
  for (const char* unknown : {"nonsense", "", "Offline"}) {
    const absl::Status refused = ParsePlacementMethod(unknown).status();
    CHECK(refused.code() == absl::StatusCode::kNotFound);
    CHECK(std::string(refused.message()) ==
          "unknown placement '" + std::string(unknown) +
              "'; known: first-fit, exact-fit-first-fit, offline");
  }
}

}  // namespace
}  // namespace neap
