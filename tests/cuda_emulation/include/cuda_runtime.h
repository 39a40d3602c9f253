// The part of CUDA C++ that neap's kernels use, for a C++ compiler: qualifiers, the functions of a
// thread, and intrinsics. Barriers, warps and launches are in grid.h.
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>

#include <bit>
#include <cstdint>
#include <source_location>

#include "tests/cuda_emulation/grid.h"

#define __global__
#define __host__
#define __device__
#define __shared__ static  // grid.cc keeps the values of each block
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

using std::source_location;

// A barrier of all threads of the block. None may have ended.
inline void __syncthreads(source_location at = source_location::current()) {
  neap::emulation::SyncThreads(at);
}
// The functions of a warp: the lanes of the mask, except those that have ended, must all call them.
inline void __syncwarp(unsigned mask = ~0U, source_location at = source_location::current()) {
  neap::emulation::Exchange(mask, 0, 0, at);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              source_location at = source_location::current()) {
  const int own = neap::emulation::Lane();
  return neap::emulation::Shuffle(mask, value, own / width * width + lane % width, at);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned offset, int width = 32,
                   source_location at = source_location::current()) {
  const int own = neap::emulation::Lane(), from = own + static_cast<int>(offset);
  return neap::emulation::Shuffle(mask, value, from / width == own / width ? from : own, at);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned offset, int width = 32,
                 source_location at = source_location::current()) {
  const int own = neap::emulation::Lane(), from = own - static_cast<int>(offset);
  return neap::emulation::Shuffle(mask, value, from >= own / width * width ? from : own, at);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  source_location at = source_location::current()) {
  const int own = neap::emulation::Lane(), from = own ^ lanes;
  return neap::emulation::Shuffle(mask, value, from / width <= own / width ? from : own, at);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              source_location at = source_location::current()) {
  return neap::emulation::Ballot(mask, predicate != 0, at);
}
inline int __any_sync(unsigned mask, int predicate,
                      source_location at = source_location::current()) {
  return neap::emulation::Ballot(mask, predicate != 0, at) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      source_location at = source_location::current()) {
  return neap::emulation::Ballot(mask, predicate == 0, at) == 0;
}

// Threads run one at a time, and see each other's writes.
inline void __threadfence() {}
inline void __threadfence_block() {}
template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}
template <typename T>
T atomicExch(T* address, T value) {
  const T old = *address;
  *address = value;
  return old;
}
template <typename T>
T atomicAdd(T* address, T value) {
  return atomicExch(address, *address + value);
}
template <typename T>
T atomicMax(T* address, T value) {
  return atomicExch(address, *address < value ? value : *address);
}
template <typename T>
T atomicCAS(T* address, T compare, T value) {
  return *address == compare ? atomicExch(address, value) : *address;
}
inline unsigned atomicInc(unsigned* address, unsigned most) {
  return atomicExch(address, *address >= most ? 0 : *address + 1);
}

// Programmatic dependent launch: a kernel runs after the one before has ended.
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void cudaGridDependencySynchronize() {}
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Arguments&... arguments) {
  neap::emulation::Launch("cudaLaunchKernelEx", config->gridDim, config->blockDim,
                          config->dynamicSmemBytes, config->stream)(kernel, arguments...);
  return cudaGetLastError();
}

namespace neap::emulation {

// `asm` with the text of one instruction.
template <typename... Operands>
void Assembly(const char* text, Operands&&...) {
  Fail("no emulation of the instruction", text);
}
inline void Assembly(const char* text, uint32_t& old, uint32_t* address, uint32_t operand) {
  if (strstr(text, "atom.") == text && strstr(text, ".inc.u32 %0, [%1], %2;") != nullptr) {
    old = atomicInc(address, operand);
  } else if (strstr(text, "atom.") == text && strstr(text, ".add.u32 %0, [%1], %2;") != nullptr) {
    old = atomicAdd(address, operand);
  } else {
    Fail("no emulation of the instruction", text);
  }
}
// Approximations of floats, which read and write 0 for subnormal numbers.
inline void Assembly(const char* text, float& result, float operand) {
  const auto normal = [](float f) { return fabsf(f) < 0x1p-126F ? copysignf(0, f) : f; };
  const float f = normal(operand);
  if (strcmp(text, "ex2.approx.ftz.f32 %0, %1;") == 0) {
    result = normal(exp2f(f));
  } else if (strcmp(text, "lg2.approx.ftz.f32 %0, %1;") == 0) {
    result = normal(log2f(f));
  } else if (strcmp(text, "rcp.approx.ftz.f32 %0, %1;") == 0) {
    result = normal(1.0F / f);
  } else {
    Fail("no emulation of the instruction", text);
  }
}

}  // namespace neap::emulation

// Arithmetic.
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max(int64_t a, int64_t b) { return a < b ? b : a; }
inline uint64_t min(uint64_t a, uint64_t b) { return a < b ? a : b; }
inline uint64_t max(uint64_t a, uint64_t b) { return a < b ? b : a; }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
inline unsigned __float_as_uint(float f) { return std::bit_cast<unsigned>(f); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float f) { return std::bit_cast<int>(f); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
// A product and a sum that are not contracted. The compiler must not see where they meet.
inline float __fmul_rn(float a, float b) {
  float product = a * b;
  asm("" : "+g"(product));
  return product;
}
inline float __fadd_rn(float a, float b) {
  asm("" : "+g"(a), "+g"(b));
  return a + b;
}
// Bytes of y and x, chosen by the nibbles of `selector` (without those that replicate signs).
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
  return result;
}
inline unsigned __vcmpeq4(unsigned a, unsigned b) {
  unsigned result = 0;
  for (int i = 0; i < 32; i += 8) result |= ((a ^ b) >> i & 0xFF) == 0 ? 0xFFU << i : 0;
  return result;
}
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float f) { return expf(f); }
inline float __logf(float f) { return logf(f); }
inline float __frcp_rn(float f) { return 1.0F / f; }
inline float rsqrtf(float f) { return 1.0F / sqrtf(f); }
