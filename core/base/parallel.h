// Loops divided among threads that live for the loop alone: for the host's work of which there is
// too much for one core.
//
//   InParallel(images, /*most_threads=*/8, [&](size_t begin, size_t end) {
//     for (size_t i = begin; i < end; ++i) Convert(i);  // all take equally long
//   });
//   EachInParallel(orders, /*most_threads=*/8, [&] {  // some take longer than others
//     return [&, scratch = Scratch()](size_t i) mutable { found[i] = Search(i, scratch); };
//   });
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace neap {

// The number of cores on which this thread may run; at least 1.
size_t AvailableCores();

// Divides [0, count) into at most `most_threads` parts, and no more than there are available cores,
// and calls work(begin, end) once for each, on the calling thread for the first and on a thread of
// its own for each other. If the system refuses a thread, the rest is one part, on the calling
// thread. `work` is called for an empty part if `count` is 0. An exception of `work`, such as
// std::bad_alloc, is thrown to the caller when all parts have ended; the first, if there are
// several.
template <typename Work>
void InParallel(size_t count, size_t most_threads, const Work& work) {
  const size_t parts = std::max(std::min({count, most_threads, AvailableCores()}), size_t{1});
  std::mutex mutex;
  std::exception_ptr thrown;  // guarded by mutex
  const auto run = [&](size_t begin, size_t end) {
    try {
      work(begin, end);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (thrown == nullptr) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(parts);
  size_t given = 1;  // parts handed out; the first is this thread's own
  try {
    for (; given < parts; ++given)
      threads.emplace_back(std::cref(run), count * given / parts, count * (given + 1) / parts);
  } catch (const std::exception&) {  // the system's refusal, or no memory for a thread
    run(count * given / parts, count);
  }
  run(size_t{0}, count / parts);
  for (std::thread& thread : threads) thread.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

// Calls work(i) for each i in [0, count), begun in order, on at most `most_threads` threads, and no
// more than there are available cores. Each thread has a work of its own, the result of make_work()
// there, and takes the next i when it has finished one. An exception ends the thread's work, and is
// thrown to the caller in the end.
template <typename MakeWork>
void EachInParallel(size_t count, size_t most_threads, const MakeWork& make_work) {
  std::atomic<size_t> next = 0;
  InParallel(count, most_threads, [&](size_t /*begin*/, size_t /*end*/) {
    auto work = make_work();
    for (size_t i = next++; i < count; i = next++) work(i);
  });
}

}  // namespace neap
