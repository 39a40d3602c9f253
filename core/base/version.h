// The version of neap, and the only place where it is written: the build, the command and the
// packages take it from here. docs/compatibility.md says what a version promises.
//
//   #if NEAP_VERSION_NUMBER >= 200  // 0.2.0 or later
#pragma once

#include <string_view>

#define NEAP_VERSION "0.1.0"
#define NEAP_VERSION_NUMBER 100  // 10,000 major + 100 minor + patch

namespace neap {

inline constexpr std::string_view kVersion = NEAP_VERSION;

}  // namespace neap
