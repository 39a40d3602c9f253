#include "apps/cli/process_memory.h"

#include <fstream>
#include <string>

#include "neap/core/base/units.h"

namespace neap::apps {

// Unlike getrusage(), this does not count what the process had before it executed this program.
std::optional<int64_t> ProcessPeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * kKiB;
  }
  return std::nullopt;
}

}  // namespace neap::apps
