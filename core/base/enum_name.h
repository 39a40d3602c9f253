// The name of an enumeration's value, for messages and files.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace neap {

// `names` are by value, from 0. "unknown" for what a caller has made of another integer, which
// messages may have to name.
template <typename Enum, size_t kCount>
std::string_view NameIn(const std::array<std::string_view, kCount>& names, Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < kCount ? names[index] : "unknown";
}

}  // namespace neap
