// The memory of the machine that this process runs on.
#pragma once

#include <cstdint>

namespace neap {

// All of it, or what this process's control group may take of it, where that is less.
int64_t HostMemoryBytes();

}  // namespace neap
