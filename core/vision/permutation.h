// A random permutation of [0, size) that is never stored: the image of an index is computed from a
// seed in constant time.
//
// A Feistel network over the smallest square power of two that holds `size` is a permutation
// whatever its round function, here Philox. Indices that land outside [0, size) are permuted again
// until they are inside (cycle walking: J. Black and P. Rogaway, "Ciphers with arbitrary finite
// domains", CT-RSA 2002).
//
//   Permutation order(/*size=*/50000, /*seed=*/1, /*epoch=*/3);
//   order(0);  // the first image of epoch 3
//
// *Complexity*: no memory; fewer than four passes of six rounds on average.
#pragma once

#include <cstdint>

namespace neap {

class Permutation {
 public:
  // `size` is in [1, 2^62].
  Permutation(int64_t size, uint64_t seed, uint64_t epoch);
  int64_t operator()(int64_t index) const;

 private:
  uint64_t Scramble(uint64_t value) const;

  uint64_t size_;
  uint64_t seed_;
  uint64_t epoch_;
  int half_bits_ = 1;
};

}  // namespace neap
