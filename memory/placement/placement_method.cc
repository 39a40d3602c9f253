#include "neap/memory/placement/placement_method.h"

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace neap {
namespace {

// By the method's number.
constexpr std::string_view kMethodNames[] = {"first-fit", "exact-fit-first-fit", "offline"};
static_assert(std::size(kMethodNames) == std::size(kPlacementMethods));

}  // namespace

std::string_view Name(PlacementMethod method) { return kMethodNames[static_cast<size_t>(method)]; }

absl::StatusOr<PlacementMethod> ParsePlacementMethod(std::string_view name) {
  for (const PlacementMethod method : kPlacementMethods) {
    if (Name(method) == name) return method;
  }
  const auto append = [](std::string* text, std::string_view known) { text->append(known); };
  return absl::NotFoundError(absl::StrCat("unknown placement '", std::string(name),
                                          "'; known: ", absl::StrJoin(kMethodNames, ", ", append)));
}

}  // namespace neap
