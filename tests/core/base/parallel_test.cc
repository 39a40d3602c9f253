#include "neap/core/base/parallel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
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

TEST_CASE("EachInParallel begins with the first indexes, however long one takes") {
  // While the thread that has index 0 waits, another one, if there is one, does all others.
  if (AvailableCores() < 2) return testing::SkipCase("there is only one core");
  std::mutex mutex;
  std::vector<size_t> begun;
  std::atomic<size_t> done = 0;
  EachInParallel(100, 2, [&] {
    return [&](size_t i) {
      {
        const std::lock_guard lock(mutex);
        begun.push_back(i);
      }
      while (i == 0 && done < 99) std::this_thread::yield();
      ++done;
    };
  });
  REQUIRE(begun.size() == 100);
  CHECK(std::set<size_t>(begun.begin(), begun.begin() + 2) == std::set<size_t>{0, 1});
  CHECK(begun.back() == 99);
}

}  // namespace
}  // namespace neap
