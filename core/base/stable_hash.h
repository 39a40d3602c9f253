// FNV-1a: a hash that is the same on every machine and in every version, for seeds and plan hashes.
#pragma once

#include <cstdint>
#include <string_view>

namespace neap {

// `hash` is the hash of the preceding text, if there is any.
constexpr uint64_t StableHash(std::string_view text, uint64_t hash = 0xcbf29ce484222325) {
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace neap
