#include "neap/core/program/passes.h"

namespace neap {

absl::StatusOr<Program> Lower(const Graph& graph, const ProgramOptions& options,
                              const DeviceDescription& /*device*/) {
  return BuildProgram(graph, options);
}

absl::StatusOr<Program> LowerPart(const Graph& graph, const Program& whole,
                                  const DeviceDescription& /*device*/) {
  return BuildPart(graph, whole);
}

}  // namespace neap
