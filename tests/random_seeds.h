// How many seeds the tests with random networks try.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace neap::testing {

// `usual` without the environment variable NEAP_RANDOM_SEEDS (sanitizers take ten times as long);
// otherwise its value, which may be larger, at least one and at most `most`.
inline uint32_t RandomSeeds(uint32_t usual, uint32_t most) {
  const char* given = std::getenv("NEAP_RANDOM_SEEDS");
  if (given == nullptr) return usual;
  return static_cast<uint32_t>(std::clamp(std::strtoul(given, nullptr, 10), 1UL, 0UL + most));
}
// The same, but not more than usual.
inline uint32_t RandomSeeds(uint32_t usual) { return RandomSeeds(usual, usual); }

}  // namespace neap::testing
