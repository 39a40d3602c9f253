// Checks what is asked for, builds the program, and adds what several ranks do together.
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/builder/program_builder.h"
#include "neap/core/program/builder/program_ports.h"
#include "neap/core/program/homes.h"
#include "neap/core/program/layer_tensors.h"
#include "neap/core/program/paper_program.h"
#include "neap/core/program/program.h"
#include "neap/core/program/reduce_gradients.h"
#include "neap/core/program/shards.h"
#include "neap/core/program/sub_batches.h"

namespace neap {
namespace {

// Whether the network is one of the kind that the paper's accounting knows.
absl::Status CheckPaper(const ResolvedGraph& graph, const ProgramOptions& options) {
  constexpr char kUnknown[] = "the paper's accounting knows no ";
  const auto excludes = [&](const char* option) {
    return absl::InvalidArgumentError(absl::StrCat(kUnknown, option));
  };
  if (options.sub_batches != 1) return excludes("sub-batches");
  if (options.share.ranks != 1) return excludes("ranks");
  if (options.accumulation.is_on()) return excludes("sums over batches");
  if (!options.homes.empty()) return excludes("homes of tensors");
  if (graph.layers.back().role == LayerRole::kCaller)
    return absl::UnimplementedError(absl::StrCat(kUnknown, "gradients that are given"));
  for (const ResolvedLayer& layer : graph.layers) {
    if (layer.spec.output_count() > 1) {
      return absl::UnimplementedError(
          absl::StrCat(kUnknown, "layers with several outputs, as '", layer.name, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> BuildProgram(const Graph& graph, const ProgramOptions& options) {
  ASSIGN_OR_RETURN(ResolvedGraph resolved, Resolve(graph, options.mode));
  return BuildProgram(std::move(resolved), options);
}

absl::StatusOr<Program> BuildProgram(ResolvedGraph graph, const ProgramOptions& options) {
  RETURN_IF_ERROR(CheckOptimizer(options.optimizer));
  RETURN_IF_ERROR(CheckPassedGradients(graph));
  RETURN_IF_ERROR(CheckSharedGradients(graph));
  if (options.mode == Mode::kTraining && !options.trainable)
    return absl::InvalidArgumentError("training needs the persistent tensors of training");
  if (options.accounting == Accounting::kPaper) {
    RETURN_IF_ERROR(CheckPaper(graph, options));
    return BuildPaperProgram(graph, options);
  }
  RETURN_IF_ERROR(CheckRanks(options, graph.options));
  RETURN_IF_ERROR(CheckAccumulation(graph, options));
  ASSIGN_OR_RETURN(PartGraphs parts, InSubBatches(std::move(graph), options));
  Program program = ProgramBuilder(std::move(parts), options).Build();
  RETURN_IF_ERROR(CheckHomes(program));
  ReduceGradients(program);
  GatherParameters(program);
  RETURN_IF_ERROR(CheckSums(program));
  return program;
}

absl::StatusOr<Program> BuildPart(ResolvedGraph graph, const Program& whole) {
  if (whole.options.share.ranks > 1 && graph.options.batch != whole.net.batch) {
    return absl::InvalidArgumentError(
        absl::StrCat(graph.options.name, ": among several ranks its batch must be that of ",
                     whole.net.name, ", ", whole.net.batch, ", but it is ", graph.options.batch));
  }
  RETURN_IF_ERROR(CheckAccumulation(graph, whole.options));
  RETURN_IF_ERROR(CheckPassedGradients(graph));
  RETURN_IF_ERROR(CheckSharedGradients(graph));
  const std::string name = graph.options.name;
  ASSIGN_OR_RETURN(PartGraphs parts, InSubBatches(std::move(graph), whole.options));
  ProgramBuilder builder(std::move(parts), whole.options);
  builder.Adopt(whole);
  Program part = builder.Build();
  if (builder.unknown_tensor().has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", whole.net.name, " has no ", *builder.unknown_tensor()));
  }
  RETURN_IF_ERROR(CheckSamePorts(part, whole));
  RETURN_IF_ERROR(CheckHomes(part));
  ReduceGradients(part);
  GatherParameters(part);
  RETURN_IF_ERROR(CheckSums(part));
  return part;
}

}  // namespace neap
