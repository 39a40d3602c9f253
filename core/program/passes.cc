#include "neap/core/program/passes.h"

#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/program/fuse.h"

namespace neap {
namespace {

absl::StatusOr<ResolvedGraph> Rewritten(const Graph& graph, const ProgramOptions& options,
                                        const DeviceDescription& device) {
  ASSIGN_OR_RETURN(ResolvedGraph resolved, Resolve(graph, options.mode));
  // The papers' layers are not fused.
  const bool fuses = graph.options().fusion && options.accounting == Accounting::kExact;
  if (!fuses) return resolved;
  return Fuse(std::move(resolved), options.mode, {.hands_over = device.kind == "cuda"});
}

}  // namespace

absl::StatusOr<Program> Lower(const Graph& graph, const ProgramOptions& options,
                              const DeviceDescription& device) {
  ASSIGN_OR_RETURN(ResolvedGraph rewritten, Rewritten(graph, options, device));
  return BuildProgram(std::move(rewritten), options);
}

absl::StatusOr<Program> LowerPart(const Graph& graph, const Program& whole,
                                  const DeviceDescription& device) {
  ASSIGN_OR_RETURN(ResolvedGraph rewritten, Rewritten(graph, whole.options, device));
  return BuildPart(std::move(rewritten), whole);
}

}  // namespace neap
