// A random one of many: an index from 64 random bits.
//
//   const PhiloxBlock r = Philox({.key = seed, .position = i});
//   const int64_t chosen = RandomIndex(r[0], r[1], /*count=*/10);  // from 0 to 9
//
// The bits are a fraction of `count`, rounded down (D. Lemire, "Fast random integer generation in
// an interval", TOMACS 2019, without its rejections), so that no index is more than 2^-63 * count
// more probable than another one.
#pragma once

#include <cstdint>

namespace neap {

// `count` is at least 1.
constexpr int64_t RandomIndex(uint32_t high, uint32_t low, int64_t count) {
  const uint64_t fraction = uint64_t{high} << 32 | low;
  return static_cast<int64_t>(
      static_cast<unsigned __int128>(fraction) * static_cast<uint64_t>(count) >> 64);
}

}  // namespace neap
