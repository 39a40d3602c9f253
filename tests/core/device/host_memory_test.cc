#include "neap/core/device/host_memory.h"

#include <doctest/doctest.h>
#include <unistd.h>

namespace neap {

TEST_CASE("a machine has some memory, and a process no more of it than there is") {
  const int64_t bytes = HostMemoryBytes();
  CHECK(bytes > 0);
  CHECK(bytes <= int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
}

}  // namespace neap
