// The bytes of threads that pass a gate.
#include "neap/core/base/byte_gate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace neap {
namespace {

TEST_CASE("threads together use no more bytes than the gate lets through") {
  constexpr int64_t kMost = 100;
  ByteGate gate(kMost);
  std::atomic<int64_t> used = 0, most = 0;
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < 200; ++i) {
        const int64_t bytes = 10 + (7 * i + 13 * thread) % 60;
        const ByteGate::Pass pass = gate.Enter(bytes);
        const int64_t now = used += bytes;
        for (int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        used -= bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(most <= kMost);
  CHECK(most >= 10);
}

TEST_CASE("one alone may have more bytes, and the next waits for it") {
  ByteGate gate(100);
  std::optional<ByteGate::Pass> large(gate.Enter(1000));
  std::atomic<bool> entered = false;
  std::thread other([&] {
    const ByteGate::Pass pass = gate.Enter(1);
    entered = true;
  });
  CHECK(!entered);
  ByteGate::Pass moved = *std::move(large);
  large.reset();  // a pass that was moved gives nothing back
  CHECK(!entered);
  { const ByteGate::Pass ended = std::move(moved); }
  other.join();
  CHECK(entered);
}

}  // namespace
}  // namespace neap
