// The memory of the machine that this process runs on.
#pragma once

#include <cstdint>

namespace neap {

// All of the machine's memory, or the limit of this process's control group if that is less.
int64_t HostMemoryBytes();

}  // namespace neap
