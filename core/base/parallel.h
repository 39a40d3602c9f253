// A loop over a range, divided among threads that live for this loop alone: for the host's work on
// a whole batch, of which there is too much for one core.
//
//   InParallel(images, /*most_threads=*/8, [&](size_t begin, size_t end) {
//     for (size_t i = begin; i < end; ++i) Convert(i);
//   });
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

namespace neap {

// Divides [0, count) into at most `most_threads` parts, and no more than there are cores, and calls
// work(begin, end) once for each, on the calling thread for the first and on a thread of its own
// for each other. What is left when the system refuses a thread is one part, on the calling thread.
// `work` must not throw, and is called for an empty part if `count` is 0.
template <typename Work>
void InParallel(size_t count, size_t most_threads, const Work& work) {
  const size_t cores = std::max(size_t{std::thread::hardware_concurrency()}, size_t{1});
  const size_t parts = std::max(std::min({count, most_threads, cores}), size_t{1});
  std::vector<std::thread> threads;
  threads.reserve(parts);
  size_t given = 1;  // parts handed out; the first is this thread's own
  try {
    for (; given < parts; ++given)
      threads.emplace_back(std::cref(work), count * given / parts, count * (given + 1) / parts);
  } catch (const std::system_error&) {
    work(count * given / parts, count);
  }
  work(size_t{0}, count / parts);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace neap
