#include "neap/core/vision/permutation.h"

#include "neap/core/base/philox.h"

namespace neap {
namespace {

constexpr uint64_t kRounds = 6;

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t epoch)
    : size_(static_cast<uint64_t>(size)), seed_(seed), epoch_(epoch) {
  while ((uint64_t{1} << (2 * half_bits_)) < size_) ++half_bits_;
}

int64_t Permutation::operator()(int64_t index) const {
  uint64_t value = Scramble(static_cast<uint64_t>(index));
  while (value >= size_) value = Scramble(value);
  return static_cast<int64_t>(value);
}

uint64_t Permutation::Scramble(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const PhiloxBlock block =
        Philox({.key = seed_, .stream = epoch_, .position = round << 56 | right});
    const uint64_t next = left ^ (block[0] & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

}  // namespace neap
