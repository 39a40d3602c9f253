#include "neap/core/device/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace neap {
namespace {

// The number in the file; nullopt without the file, or for "max", which means no limit.
std::optional<int64_t> ReadLimit(const std::string& path) {
  std::string text;
  std::ifstream(path) >> text;
  int64_t limit = 0;
  return absl::SimpleAtoi(text, &limit) && limit > 0 ? std::optional(limit) : std::nullopt;
}

void TakeLess(std::optional<int64_t> limit, std::optional<int64_t>& least) {
  if (limit.has_value()) least = std::min(least.value_or(*limit), *limit);
}

// The least limit of the group "/a/b" under `root` and of the groups "/a" and "/" that contain it.
std::optional<int64_t> LimitOf(std::string group, const std::string& root,
                               const std::string& file) {
  std::optional<int64_t> least = ReadLimit(root + "/" + file);
  // A group outside the process's cgroup namespace, "/../a", has no directory under the root.
  if (group.find("/..") != std::string::npos) return least;
  while (group.size() > 1) {
    TakeLess(ReadLimit(root + group + "/" + file), least);
    group.resize(group.rfind('/'));
  }
  return least;
}

}  // namespace

std::optional<int64_t> ControlGroupLimitBytes(const std::string& membership,
                                              const std::string& root) {
  std::optional<int64_t> least;
  std::ifstream lines(membership);
  // "0::/a/b" is the group of version 2, "4:cpu,memory:/a/b" one of version 1 with its controllers.
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || fields[2].empty() || fields[2].front() != '/') continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (fields[1].empty()) {
      TakeLess(LimitOf(fields[2], root, "memory.max"), least);
    } else if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      TakeLess(LimitOf(fields[2], root + "/memory", "memory.limit_in_bytes"), least);
    }
  }
  return least;
}

int64_t HostMemoryBytes() {
  const int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const std::optional<int64_t> limit =
      ControlGroupLimitBytes("/proc/self/cgroup", "/sys/fs/cgroup");
  return std::min(bytes, limit.value_or(bytes));
}

}  // namespace neap
