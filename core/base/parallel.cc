#include "neap/core/base/parallel.h"

#include <sched.h>

namespace neap {

size_t AvailableCores() {
  cpu_set_t cores;
  // Fails where the system has more cores than the set has room for.
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
    return std::max(size_t{std::thread::hardware_concurrency()}, size_t{1});
  return static_cast<size_t>(std::max(CPU_COUNT(&cores), 1));
}

}  // namespace neap
