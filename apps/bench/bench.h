// The benchmarks of `neap bench`, each a command line of its own.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace neap::apps {

// u-cuDNN's comparison (apps/bench/conv_comparison.h). `args` follow the benchmark's name.
absl::StatusOr<int> RunConvCommand(const std::vector<std::string>& args);

// Ways to choose workspaces in pools of fixed sizes (apps/bench/workspace_comparison.h).
absl::StatusOr<int> RunWorkspaceBench(const std::vector<std::string>& args);

// The arena against an allocation for each tensor (apps/bench/pool_comparison.h).
absl::StatusOr<int> RunPoolBench(const std::vector<std::string>& args);

}  // namespace neap::apps
