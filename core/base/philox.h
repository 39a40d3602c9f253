// Philox4x32-10, the counter-based random numbers of Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3" (SC 2011). A number is a pure function of key and counter, so any device can
// generate any of them in any order, and regenerate them.
//
//   PhiloxBlock r = Philox({.key = seed, .stream = layer_seed, .position = i / 4});
//   float u = ToUnitFloat(r[i % 4]);  // in [0, 1)
#pragma once

#include <array>
#include <cstdint>

namespace neap {

using PhiloxBlock = std::array<uint32_t, 4>;

struct PhiloxCounter {
  uint64_t key = 0;
  uint64_t stream = 0;
  uint64_t position = 0;
};

// constexpr, so that CUDA kernels call the same code (--expt-relaxed-constexpr).
constexpr PhiloxBlock Philox(PhiloxCounter counter) {
  uint32_t k0 = static_cast<uint32_t>(counter.key);
  uint32_t k1 = static_cast<uint32_t>(counter.key >> 32);
  uint32_t c0 = static_cast<uint32_t>(counter.position);
  uint32_t c1 = static_cast<uint32_t>(counter.position >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter.stream);
  uint32_t c3 = static_cast<uint32_t>(counter.stream >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

// The upper 24 bits as a number in [0, 1).
constexpr float ToUnitFloat(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

// The random numbers for the dropout of four neighbouring elements: 4 * block .. 4 * block + 3.
constexpr PhiloxBlock DropoutBlock(uint64_t session_seed, uint64_t layer_seed, uint32_t step,
                                   uint64_t block) {
  return Philox({.key = session_seed,
                 .stream = layer_seed + uint64_t{0x9E3779B97F4A7C15} * (uint64_t{step} + 1),
                 .position = block});
}

// The dropout mask (layers/dropout.h): whether element i is kept in this step.
constexpr bool DropoutKeeps(uint64_t session_seed, uint64_t layer_seed, uint32_t step, uint64_t i,
                            float probability) {
  return ToUnitFloat(DropoutBlock(session_seed, layer_seed, step, i / 4)[i % 4]) >= probability;
}

}  // namespace neap
