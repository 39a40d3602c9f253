#include "tests/cuda_emulation/grid.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cuda_emulation/last_error.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace neap::emulation {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = 1024;
constexpr size_t kMaxBlocks = 4;  // that run at the same time
constexpr size_t kSharedBytes = 48 * 1024;
constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kPageBytes = 4096;
constexpr uint64_t kGarbage = ~uint64_t{0};  // NaN

// A place where execution continues. GCC's builtins switch stacks without system calls; the
// functions that call them must be opaque to its analysis of registers.
using Place = void* [5];
[[gnu::noipa]] void Continue(void** at) { __builtin_longjmp(at, 1); }
[[gnu::noipa]] void Switch(void** from, void** to) {
  if (__builtin_setjmp(from) == 0) Continue(to);
}

struct Fiber {
  Place place = {};
  ucontext_t context = {};  // only to begin
};

enum class State { kReady, kAtBarrier, kAtWarp, kEnded };

struct Thread {
  uint3 index = {};
  State state = State::kReady;
  Fiber* fiber = nullptr;   // null before it begins
  std::source_location at;  // where it waits
  unsigned mask = 0;
  uint64_t value = 0;  // handed over to the warp
};

struct SharedVariable {
  void* address = nullptr;
  std::vector<std::byte> bytes;  // while another block runs
};

struct Block {
  uint3 index = {};
  std::vector<Thread> threads;
  std::vector<uint64_t> exchanged;  // by the warps, a value per thread
  std::vector<unsigned> warps;      // that do not wait for the block
  std::vector<SharedVariable> shared;
};

// The running grid.
struct Grid {
  const char* kernel = "";
  void (*body)(const void*) = nullptr;
  const void* argument = nullptr;
  Block* block = nullptr;  // whose shared variables are in place
  Thread* thread = nullptr;
  std::vector<Thread*> ready;  // of the running warp, in the order in which they run
  size_t next = 0;             // of these
};
Grid grid;
Place scheduler = {};
std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Fiber*> idle;
std::array<Block, kMaxBlocks> blocks;  // whose memory one grid after the other uses
Fiber* beginning = nullptr;
std::mutex one_grid;

uint32_t Seed() {
  const char* const text = std::getenv("NEAP_EMULATION_SEED");
  return text == nullptr ? 1 : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

// Below the bound, which is less than 2^32. SplitMix64 (https://doi.org/10.1145/2714064.2660195)
// without its last mixing, which is of the lower half, because std::mt19937 takes a tenth of the
// time of all tests.
uint32_t Random(size_t bound) {
  static uint64_t state = Seed();
  uint64_t mixed = state += 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return static_cast<uint32_t>((mixed >> 32) * bound >> 32);
}

template <typename T>
void Shuffle(std::vector<T>& values) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Random(i)]);
}

// 0, 1, ..., count - 1
std::vector<unsigned> Numbers(size_t count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  return numbers;
}

std::string Text(uint3 at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) +
         ")";
}

std::string Text(std::source_location at) {
  return std::string(at.file_name()) + ":" + std::to_string(at.line());
}

bool Same(std::source_location a, std::source_location b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

// Where the next ready thread continues, which then is the current one. After the last one, and if
// the next one needs a new fiber, the scheduler.
void** NextPlace() {
  if (grid.next == grid.ready.size()) return scheduler;
  Thread& thread = *grid.ready[grid.next];
  if (thread.fiber == nullptr) {
    if (idle.empty()) return scheduler;
    thread.fiber = idle.back();
    idle.pop_back();
  }
  ++grid.next;
  grid.thread = &thread;
  threadIdx = thread.index;
  return thread.fiber->place;
}

// Runs one thread after the other, for ever.
void RunThreads() {
  Fiber& own = *beginning;
  Switch(own.place, scheduler);
  for (;;) {
    Thread& thread = *grid.thread;
    grid.body(grid.argument);
    thread.state = State::kEnded;
    idle.push_back(&own);
    Switch(own.place, NextPlace());
  }
}

// A new fiber, which waits for its first thread. Below its stack is a page without access.
Fiber* Begin() {
  void* const memory = mmap(nullptr, kPageBytes + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kPageBytes, PROT_NONE) != 0)
    Fail("no memory for the stack of a thread", grid.kernel);
  fibers.push_back(std::make_unique<Fiber>());
  beginning = fibers.back().get();
  getcontext(&beginning->context);
  beginning->context.uc_stack.ss_sp = static_cast<std::byte*>(memory) + kPageBytes;
  beginning->context.uc_stack.ss_size = kStackBytes;
  makecontext(&beginning->context, RunThreads, 0);
  if (__builtin_setjmp(scheduler) == 0) setcontext(&beginning->context);
  return beginning;
}

size_t NumberOf(const Thread& thread) {
  return static_cast<size_t>(&thread - grid.block->threads.data());
}

// Runs the ready threads until each waits or has ended.
void RunReady() {
  Shuffle(grid.ready);
  grid.next = 0;
  while (grid.next < grid.ready.size()) {
    if (idle.empty()) idle.push_back(Begin());
    Switch(scheduler, NextPlace());
  }
}

// Lets the current thread wait.
void Wait(State state, unsigned mask, std::source_location at) {
  Thread& thread = *grid.thread;
  thread.state = state;
  thread.mask = mask;
  thread.at = at;
  Switch(thread.fiber->place, NextPlace());
}

// Whether all lanes of the thread's mask that have not ended wait with it.
bool IsComplete(const Block& block, const Thread& thread, size_t first, size_t end) {
  for (size_t i = first; i < end; ++i) {
    const Thread& other = block.threads[i];
    if ((thread.mask >> (i - first) & 1U) == 0 || other.state == State::kEnded) continue;
    if (other.state != State::kAtWarp || other.mask != thread.mask || !Same(other.at, thread.at))
      return false;
  }
  return true;
}

// Lets the lanes of a warp go on that have all arrived.
void ReleaseLanes(Block& block, size_t first, size_t end, std::vector<Thread*>& ready) {
  unsigned complete = 0;
  for (size_t i = first; i < end; ++i) {
    Thread& thread = block.threads[i];
    const unsigned lane = 1U << (i - first);
    if (thread.state == State::kEnded) block.exchanged[i] = kGarbage;
    if (thread.state != State::kAtWarp) continue;
    if ((complete & lane) == 0 && IsComplete(block, thread, first, end)) complete |= thread.mask;
    if ((complete & lane) == 0) continue;
    block.exchanged[i] = thread.value;
    ready.push_back(&thread);
  }
  for (Thread* thread : ready) thread->state = State::kReady;
}

// Runs a warp until all its threads wait for the block or have ended.
void RunWarp(Block& block, unsigned warp) {
  const size_t first = size_t{warp} * kWarp, end = std::min(first + kWarp, block.threads.size());
  std::vector<Thread*>& ready = grid.ready;
  ready.clear();
  for (size_t i = first; i < end; ++i) ready.push_back(&block.threads[i]);
  std::erase_if(ready, [](const Thread* thread) { return thread->state != State::kReady; });
  while (!ready.empty()) {
    RunReady();
    ready.clear();
    ReleaseLanes(block, first, end, ready);
  }
}

void MakeRunnable(Block& block) {
  block.warps = Numbers((block.threads.size() + kWarp - 1) / kWarp);
  Shuffle(block.warps);
}

// Lets all threads of the block go on, if they wait at one barrier.
bool ReleaseBlock(Block& block) {
  for (const Thread& thread : block.threads) {
    if (thread.state != State::kAtBarrier || !Same(thread.at, block.threads[0].at)) return false;
  }
  for (Thread& thread : block.threads) thread.state = State::kReady;
  MakeRunnable(block);
  return true;
}

[[noreturn]] void FailDivergent(const std::vector<Thread>& threads) {
  std::string what = "threads wait for each other for ever:";
  const char* const states[] = {"run", "wait for their block", "wait for their warp", "have ended"};
  for (size_t i = 0; i < threads.size(); ++i) {
    const Thread& thread = threads[i];
    const auto like = [&](const Thread& other) {
      return other.state == thread.state &&
             (thread.state == State::kEnded || Same(other.at, thread.at));
    };
    if (std::any_of(threads.begin(), threads.begin() + static_cast<long>(i), like)) continue;
    what += "\n  " + std::to_string(std::count_if(threads.begin(), threads.end(), like)) + " " +
            states[static_cast<size_t>(thread.state)] + ", as thread " + Text(thread.index);
    if (thread.state != State::kEnded) what += " at " + Text(thread.at);
  }
  Fail(what.c_str(), grid.kernel);
}

void Begin(Block& block, unsigned number) {
  block.index = {number % gridDim.x, number / gridDim.x % gridDim.y,
                 number / gridDim.x / gridDim.y};
  block.threads.resize(size_t{blockDim.x} * blockDim.y * blockDim.z);
  block.exchanged.assign(block.threads.size(), kGarbage);
  for (unsigned i = 0; i < block.threads.size(); ++i) {
    const unsigned row = i / blockDim.x;
    block.threads[i] = {.index = {i % blockDim.x, row % blockDim.y, row / blockDim.y}};
  }
  block.shared.clear();
  MakeRunnable(block);
}

// Puts the block's shared variables in their places.
void Enter(Block& block) {
  blockIdx = block.index;
  if (grid.block == &block) return;
  if (grid.block != nullptr) {
    for (SharedVariable& of : grid.block->shared)
      std::memcpy(of.bytes.data(), of.address, of.bytes.size());
  }
  for (const SharedVariable& of : block.shared)
    std::memcpy(of.address, of.bytes.data(), of.bytes.size());
  grid.block = &block;
}

// Runs some of the block's warps, few or so many that they pass several barriers; returns whether
// the block has not ended.
bool Advance(Block& block) {
  Enter(block);
  for (unsigned left = 1U << Random(7); left > 0; --left) {
    RunWarp(block, block.warps.back());
    block.warps.pop_back();
    if (!block.warps.empty() || ReleaseBlock(block)) continue;
    for (const Thread& thread : block.threads) {
      if (thread.state != State::kEnded) FailDivergent(block.threads);
    }
    return false;
  }
  return true;
}

bool IsPossible(dim3 blocks, dim3 block) {
  constexpr uint64_t kMaxRows = 65535;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  return threads > 0 && threads <= kMaxThreads && block.z <= 64 && blocks.x > 0 && blocks.y > 0 &&
         blocks.z > 0 && blocks.x < 1U << 31 && blocks.y <= kMaxRows && blocks.z <= kMaxRows;
}

}  // namespace

void Launch::Run(void (*thread)(const void*), const void* argument) const {
  if (!IsPossible(grid_, block_)) return SetLastError(cudaErrorInvalidConfiguration);
  if (shared_bytes_ > 0) Fail("dynamic shared memory is not emulated", kernel_);
  const std::lock_guard<std::mutex> lock(one_grid);
  grid.kernel = kernel_;
  grid.body = thread;
  grid.argument = argument;
  gridDim = grid_;
  blockDim = block_;
  std::vector<unsigned> waiting = Numbers(size_t{grid_.x} * grid_.y * grid_.z);
  Shuffle(waiting);
  std::vector<Block*> running;
  for (size_t count = std::min<size_t>(1 + Random(kMaxBlocks), waiting.size()); count > 0;
       --count) {
    running.push_back(&blocks[count - 1]);
    Begin(*running.back(), waiting.back());
    waiting.pop_back();
  }
  while (!running.empty()) {
    Block*& block = running[Random(running.size())];
    if (Advance(*block)) continue;
    if (waiting.empty()) {
      std::swap(block, running.back());
      running.pop_back();
    } else {
      Begin(*block, waiting.back());
      waiting.pop_back();
    }
  }
  grid.block = nullptr;
}

void NewShared(void* variable, size_t bytes) {
  size_t sum = bytes;
  for (const SharedVariable& of : grid.block->shared) {
    if (of.address == variable) return;
    sum += of.bytes.size();
  }
  if (sum > kSharedBytes) Fail("more than 48 KiB of shared memory", grid.kernel);
  grid.block->shared.push_back({variable, std::vector<std::byte>(bytes)});
  std::memset(variable, 0xFF, bytes);
}

void SyncThreads(std::source_location at) { Wait(State::kAtBarrier, 0, at); }

int Lane() { return static_cast<int>(NumberOf(*grid.thread) % kWarp); }

uint64_t Exchange(unsigned mask, uint64_t value, int lane, std::source_location at) {
  Thread& thread = *grid.thread;
  const size_t number = NumberOf(thread);
  if ((mask >> number % kWarp & 1U) == 0) Fail("a lane is not in its own mask", Text(at).c_str());
  thread.value = value;
  Wait(State::kAtWarp, mask, at);
  const std::vector<uint64_t>& exchanged = grid.block->exchanged;
  const size_t from = number / kWarp * kWarp + static_cast<size_t>(lane);
  return from < exchanged.size() && (mask >> lane & 1U) != 0 ? exchanged[from] : kGarbage;
}

unsigned Ballot(unsigned mask, bool predicate, std::source_location at) {
  const size_t first = NumberOf(*grid.thread) / kWarp * kWarp;
  Exchange(mask, predicate ? 1 : 0, 0, at);
  const std::vector<uint64_t>& exchanged = grid.block->exchanged;
  unsigned lanes = 0;
  for (size_t i = first; i < std::min(first + kWarp, exchanged.size()); ++i) {
    if ((mask >> (i - first) & 1U) != 0 && exchanged[i] == 1) lanes |= 1U << (i - first);
  }
  return lanes;
}

void Fail(const char* what, const char* where) {
  std::fprintf(stderr, "emulated kernel: %s\n  in %s, block %s, NEAP_EMULATION_SEED=%u\n", what,
               where, Text(blockIdx).c_str(), Seed());
  std::abort();
}

}  // namespace neap::emulation
