// How much two words differ, for suggesting what a user may have meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace neap {

// The Levenshtein distance: insertions, deletions and replacements that turn `a` into `b`.
// *Complexity*: O(|a| |b|).
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace neap
