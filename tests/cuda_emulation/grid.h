// Runs CUDA kernels on the host, so that their tests need no GPU.
//
// Each thread of a block is a fiber that runs until it ends or waits, at a barrier or for its warp.
// Up to four blocks run at the same time: they take turns, after some of their warps have reached a
// barrier or the end. Blocks, warps and lanes take turns in random orders, and results must not
// depend on these. The seed is NEAP_EMULATION_SEED, or 1.
//
//   block 5   warp 0       |--|    barrier    |---|
//             warp 1            |--|                  |--|
//   block 2   warp 0   |--|              |---|    |--|
//             warp 1                |---|
//
// The process ends with a message if threads wait at different barriers or have ended before one,
// and if a kernel needs more shared memory than there is. Shared memory begins as NaN. The rest is
// found by sanitizers, with which the kernels are compiled: accesses outside device memory and
// outside shared arrays, and vectors at unaligned addresses.
//
// It does not show races within what a warp does between two barriers, writes that a GPU shows to
// others later, blocks that wait for each other, missing waits between streams, and speed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>

// The running thread's.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace neap::emulation {

// What kernel<<<grid, block, shared_bytes, stream>>> becomes (translate.py).
//
//   Launch("Twice<float>", 8, 256, 0, stream)([](auto... of) { Twice<float>(of...); }, x, n);
class Launch {
 public:
  Launch(const char* kernel, dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t = nullptr)
      : kernel_(kernel), grid_(grid), block_(block), shared_bytes_(shared_bytes) {}
  // Every thread has arguments of its own. The error of an impossible launch is the next
  // cudaGetLastError().
  template <typename Kernel, typename... Arguments>
  void operator()(const Kernel& kernel, const Arguments&... arguments) const {
    const auto thread = [&] { kernel(arguments...); };
    Run([](const void* of) { (*static_cast<decltype(&thread)>(of))(); }, &thread);
  }

 private:
  void Run(void (*thread)(const void*), const void* argument) const;

  const char* kernel_;
  dim3 grid_, block_;
  size_t shared_bytes_;
};

// Called by every thread that reaches the declaration of a shared variable: the first of a block
// fills it with NaN.
void NewShared(void* variable, size_t bytes);

// Waits for all threads of the block.
void SyncThreads(std::source_location at);

// The thread's number in its warp.
int Lane();
// Waits for the lanes of the mask, and returns what `lane` has handed over.
uint64_t Exchange(unsigned mask, uint64_t value, int lane, std::source_location at);
// The lanes of the mask whose predicate is true.
unsigned Ballot(unsigned mask, bool predicate, std::source_location at);

template <typename T>
T Shuffle(unsigned mask, T value, int lane, std::source_location at) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = Exchange(mask, bits, lane, at);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// Ends the process with a message.
[[noreturn]] void Fail(const char* what, const char* where);

}  // namespace neap::emulation
