// The memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>
#include <optional>

namespace neap::apps {

// The most bytes that were in physical memory at once, since the program began: the arena of a CPU,
// the network's values, the data that was read, the program and its libraries. Without the memory
// of GPUs. Absent where /proc/self/status does not tell.
std::optional<int64_t> ProcessPeakBytes();

}  // namespace neap::apps
