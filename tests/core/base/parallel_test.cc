#include "neap/core/base/parallel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/skip.h"

namespace neap {
namespace {

TEST_CASE("InParallel covers a range once, on no more threads than asked for") {
  for (size_t count : {0, 1, 2, 7, 1000}) {
    for (size_t most : {0, 1, 2, 64}) {
      CAPTURE(count);
      CAPTURE(most);
      std::vector<std::atomic<int>> calls(count);
      std::atomic<size_t> parts = 0;
      InParallel(count, most, [&](size_t begin, size_t end) {
        ++parts;
        for (size_t i = begin; i < end; ++i) ++calls[i];
      });
      for (const std::atomic<int>& times : calls) CHECK(times == 1);
      CHECK((parts >= 1 && parts <= std::max(most, size_t{1})));
    }
  }
}

TEST_CASE("EachInParallel calls work once for each index, each thread with a work of its own") {
  for (size_t count : {0, 1, 2, 7, 1000}) {
    for (size_t most : {1, 2, 64}) {
      CAPTURE(count);
      CAPTURE(most);
      std::vector<std::atomic<int>> calls(count);
      std::atomic<size_t> made = 0;
      EachInParallel(count, most, [&] {
        return [&, maker = std::this_thread::get_id(), work = made++](size_t i) mutable {
          CHECK(maker == std::this_thread::get_id());
          CHECK(work < most);
          ++calls[i];
        };
      });
      for (const std::atomic<int>& times : calls) CHECK(times == 1);
    }
  }
}

TEST_CASE("EachInParallel hands out the first index next, however long one takes") {
  // While the thread that has index 0 waits, another one, if there is one, does all others.
  if (AvailableCores() < 2) return testing::SkipCase("there is only one core");
  std::mutex mutex;
  std::map<std::thread::id, std::vector<size_t>> taken;
  std::atomic<size_t> done = 0;
  EachInParallel(100, 2, [&] {
    return [&](size_t i) {
      {
        const std::lock_guard lock(mutex);
        taken[std::this_thread::get_id()].push_back(i);
      }
      while (i == 0 && done < 99) std::this_thread::yield();
      ++done;
    };
  });
  std::vector<size_t> others(99);
  std::iota(others.begin(), others.end(), 1);
  REQUIRE(taken.size() == 2);
  for (const auto& [thread, indexes] : taken) {
    CHECK((indexes == std::vector<size_t>{0} || indexes == others));
  }
}

TEST_CASE("what a part throws is thrown to the caller when all parts have ended") {
  for (const size_t thrower : {size_t{0}, size_t{7}}) {
    CAPTURE(thrower);
    std::atomic<size_t> ended = 0;
    const auto work = [&](size_t begin, size_t end) {
      if (begin <= thrower && thrower < end) throw std::bad_alloc();
      ended += end - begin;
    };
    CHECK_THROWS_AS(InParallel(8, 8, work), std::bad_alloc);
    CHECK(ended < 8);
  }
  std::atomic<int> calls = 0;
  const auto make_work = [&] {
    return [&](size_t i) {
      if (i == 3) throw std::bad_alloc();
      ++calls;
    };
  };
  CHECK_THROWS_AS(EachInParallel(8, 4, make_work), std::bad_alloc);
  CHECK(calls >= 3);
}

}  // namespace
}  // namespace neap
