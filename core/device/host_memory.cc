#include "neap/core/device/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"

namespace neap {

int64_t HostMemoryBytes() {
  const int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::string text;
  std::ifstream("/sys/fs/cgroup/memory.max") >> text;
  int64_t limit = 0;  // "max", which is not a number, means no limit
  return absl::SimpleAtoi(text, &limit) && limit > 0 ? std::min(bytes, limit) : bytes;
}

}  // namespace neap
