// A number as a file has it, in either byte order.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace neap {

// `is_swapped`: the bytes are in the other order than this machine's.
template <typename Stored>
Stored LoadStored(const std::byte* bytes, bool is_swapped) {
  std::array<std::byte, sizeof(Stored)> own;
  std::memcpy(own.data(), bytes, own.size());
  if (is_swapped) std::reverse(own.begin(), own.end());
  return std::bit_cast<Stored>(own);
}

}  // namespace neap
