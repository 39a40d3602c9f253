// The emulation itself: what kernels compute on it, and the faults that it must report.
#include <cuda_runtime.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <vector>

namespace {

constexpr unsigned kBlock = 96;

__global__ void Count(int* counts) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  ++counts[block * blockDim.x * blockDim.y * blockDim.z + thread];
}

TEST_CASE("every thread of an emulated grid runs once") {
  const dim3 grid(3, 2, 5), block(7, 3, 2);
  std::vector<int> counts(3 * 2 * 5 * 7 * 3 * 2);
  Count<<<grid, block>>>(counts.data());
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(counts == std::vector<int>(counts.size(), 1));
}

TEST_CASE("a launch that a GPU refuses is refused") {
  for (const dim3& block : {dim3(0), dim3(1025), dim3(1, 1, 65)}) {
    Count<<<1, block>>>(nullptr);
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  }
  Count<<<dim3(1, 65536), 1>>>(nullptr);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
}

__global__ void Lanes(unsigned* out) {
  const unsigned i = threadIdx.x, value = i + 1000;
  out[i] = __shfl_down_sync(~0U, value, 3);
  out[kBlock + i] = __shfl_up_sync(~0U, value, 3);
  out[2 * kBlock + i] = __shfl_xor_sync(~0U, value, 5);
  out[3 * kBlock + i] = __shfl_sync(~0U, value, 7, 16);
  out[4 * kBlock + i] = __ballot_sync(~0U, i % 3 == 0);
  if (i % 32 < 8) out[5 * kBlock + i] = __shfl_down_sync(0xFFU, value, 2, 8);
}

TEST_CASE("emulated lanes exchange what those of a GPU do") {
  std::vector<unsigned> out(6 * kBlock);
  Lanes<<<1, kBlock>>>(out.data());
  for (unsigned i = 0; i < kBlock; ++i) {
    const unsigned lane = i % 32, value = i + 1000;
    CHECK(out[i] == (lane < 29 ? value + 3 : value));
    CHECK(out[kBlock + i] == (lane < 3 ? value : value - 3));
    CHECK(out[2 * kBlock + i] == (i ^ 5U) + 1000);
    CHECK(out[3 * kBlock + i] == i / 16 * 16 + 7 + 1000);
    CHECK((out[4 * kBlock + i] >> lane & 1U) == (i % 3 == 0 ? 1U : 0U));
    if (lane < 8) CHECK(out[5 * kBlock + i] == (lane < 6 ? value + 2 : value));
  }
}

// Adds the blocks' numbers, in the block that takes the last ticket.
__global__ void LastBlock(unsigned* ticket, unsigned* parts, unsigned* sum) {
  __shared__ unsigned before;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x;
    asm volatile("atom.acq_rel.gpu.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(ticket), "r"(gridDim.x - 1)
                 : "memory");
  }
  __syncthreads();
  if (before == gridDim.x - 1 && threadIdx.x < gridDim.x) atomicAdd(sum, parts[threadIdx.x]);
}

TEST_CASE("the last of the emulated blocks sees what the others wrote") {
  unsigned ticket = 0, sum = 0;
  std::vector<unsigned> parts(20);
  LastBlock<<<20, kBlock>>>(&ticket, parts.data(), &sum);
  CHECK(sum == 19 * 20 / 2);
  CHECK(ticket == 0);
}

// Reverses a block. Without the barrier, some threads read before others have written.
__global__ void Reverse(bool wait, float* values) {
  __shared__ float shared[kBlock];
  shared[threadIdx.x] = values[threadIdx.x];
  if (wait) __syncthreads();
  values[threadIdx.x] = shared[kBlock - 1 - threadIdx.x];
}

TEST_CASE("without its barrier an emulated kernel reads shared memory that is not written") {
  for (const bool wait : {true, false}) {
    std::vector<float> values(kBlock);
    for (unsigned i = 0; i < kBlock; ++i) values[i] = static_cast<float>(i);
    Reverse<<<1, kBlock>>>(wait, values.data());
    unsigned wrong = 0;
    for (unsigned i = 0; i < kBlock; ++i)
      wrong += values[i] == static_cast<float>(kBlock - 1 - i) ? 0 : 1;
    CHECK((wrong == 0) == wait);
  }
}

enum class Fault { kNone, kSomeWait, kSomeEnd, kElsewhere, kLanes, kOutside, kShared, kUnaligned };

__global__ void Faulty(Fault fault, float* values) {
  __shared__ float shared[kBlock];
  const unsigned i = threadIdx.x;
  shared[i] = values[i];
  if (fault == Fault::kSomeEnd && i >= 64) return;
  if (fault != Fault::kSomeWait || i < 32) __syncthreads();
  if (fault == Fault::kElsewhere && i < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  if (fault == Fault::kLanes && i < 16) values[i] = __shfl_down_sync(~0U, values[i], 1);
  __syncthreads();
  if (fault == Fault::kOutside) values[i] = values[i + 1];
  if (fault == Fault::kShared) values[i] = shared[i + 1];
  if (fault == Fault::kUnaligned && i == 0)
    values[0] = reinterpret_cast<const float4*>(values + 1)->x;
}

// Whether the launch ends the process.
bool EndsProcess(Fault fault) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    for (int signal : {SIGABRT, SIGSEGV}) std::signal(signal, SIG_DFL);
    std::fclose(stderr);
    close(STDERR_FILENO);
    std::vector<float> values(kBlock);
    Faulty<<<1, kBlock>>>(fault, values.data());
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status != 0;
}

TEST_CASE("faults of emulated kernels end the process") {
  CHECK(!EndsProcess(Fault::kNone));
  for (int fault = 1; fault <= static_cast<int>(Fault::kUnaligned); ++fault) {
    CAPTURE(fault);
    CHECK(EndsProcess(static_cast<Fault>(fault)));
  }
}

}  // namespace
