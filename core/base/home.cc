#include "neap/core/base/home.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/base/enum_name.h"

namespace neap {
namespace {

constexpr std::array<std::string_view, 3> kHomeNames = {"arena", "host", "external"};

}  // namespace

std::string_view Name(Home home) { return NameIn(kHomeNames, home); }

absl::StatusOr<Home> ParseHome(std::string_view text) {
  const auto* const found = std::find(kHomeNames.begin(), kHomeNames.end(), text);
  if (found != kHomeNames.end()) return static_cast<Home>(found - kHomeNames.begin());
  return absl::InvalidArgumentError(
      absl::StrCat("unknown home '", std::string(text), "'; known: arena, host, external"));
}

}  // namespace neap
