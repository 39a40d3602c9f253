// The memory of the machine that this process runs on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace neap {

// All of the machine's memory, or the limit of this process's control groups if that is less.
int64_t HostMemoryBytes();

// The least memory limit, in bytes, of the control groups listed in the file `membership`
// (/proc/self/cgroup) and of the groups that contain them; nullopt if none has a limit. `root` is
// where the groups are mounted (/sys/fs/cgroup): those of version 2 there, or those of version 1's
// memory controller in its directory "memory". In a container, `membership` may name directories of
// the host that are not mounted; the limit is then that of `root` itself, which is the container's
// group.
std::optional<int64_t> ControlGroupLimitBytes(const std::string& membership,
                                              const std::string& root);

}  // namespace neap
