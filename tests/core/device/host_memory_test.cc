#include "neap/core/device/host_memory.h"

#include <doctest/doctest.h>
#include <unistd.h>

namespace neap {

TEST_CASE("a machine has memory, and a process has at most as much") {
  const int64_t bytes = HostMemoryBytes();
  CHECK(bytes > 0);
  CHECK(bytes <= int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
}

}  // namespace neap
