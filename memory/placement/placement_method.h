// The ways to find a tensor's address in the arena.
//
//   for (const PlacementMethod method : kPlacementMethods) Name(method);
//   ASSIGN_OR_RETURN(options.placement, ParsePlacementMethod("exact-fit-first-fit"));
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace neap {

enum class PlacementMethod : uint8_t {
  kFirstFit,          // a heap's first empty node that is large enough (memory/placement/heap.h)
  kExactFitFirstFit,  // one of exactly the right size, if there is one (memory/placement/heap.h)
  kOffline,           // with all lifetimes known beforehand (memory/placement/placement.h)
};
inline constexpr PlacementMethod kPlacementMethods[] = {
    PlacementMethod::kFirstFit, PlacementMethod::kExactFitFirstFit, PlacementMethod::kOffline};

std::string_view Name(PlacementMethod method);
// Errors: NOT_FOUND, with the known names.
absl::StatusOr<PlacementMethod> ParsePlacementMethod(std::string_view name);

}  // namespace neap
