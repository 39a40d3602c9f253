// How far two words are apart, for suggesting what a person may have meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace neap {

// Levenshtein's: insertions, deletions and replacements that make `a` into `b`.
// *Complexity*: O(|a| |b|).
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace neap
