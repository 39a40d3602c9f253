// neap export: writes a network with its weights to an ONNX file.
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "apps/cli/flags.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/cli/saved_model.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/program/passes.h"
#include "neap/layers/cpu/cpu_description.h"
#include "neap/nets/onnx/onnx_file.h"

namespace neap::apps {
namespace {

struct ExportFlags {
  NetFlags net;
  std::string weights;
  std::string onnx;
};

absl::StatusOr<NamedValues> ReadWeightsOf(ExportFlags& flags, const Graph& graph) {
  if (!flags.weights.empty()) {
    ASSIGN_OR_RETURN(const Program program,
                     Lower(graph, {.mode = Mode::kInference}, DescribeCpu()));
    return ReadWeights(flags.weights, program);
  }
  ASSIGN_OR_RETURN(std::optional<NamedValues> weights, flags.net.Weights());
  if (weights.has_value()) return *std::move(weights);
  return flags.net.WeightsMissing();
}

}  // namespace

absl::StatusOr<int> RunExport(const std::vector<std::string>& args) {
  ExportFlags given;
  FlagSet flags(
      "neap export [NET] [--weights FILE] --onnx FILE [flags]",
      "Writes a trained network to a file for ONNX Runtime and other programs. Its result "
      "are scores,\nwhose softmax neap predict prints. Any number of images fits.");
  flags.OptionalPositional("NET", kOptionalNetHelp, &given.net.name);
  flags.Add("weights", "FILE",
            "the trained weights: a checkpoint, or weights alone (safetensors); needed unless NET "
            "is a file, which has weights",
            Text(&given.weights));
  flags.Add("onnx", "FILE", "the file to write", Text(&given.onnx));
  flags.Add("output", "FILE", "another name of --onnx", Text(&given.onnx));
  given.net.AddDepthTo(flags);
  given.net.AddImagesTo(flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  if (given.onnx.empty()) return BadUsage("--onnx FILE is missing");
  RETURN_IF_ERROR(
      CheckOutputs({{"--onnx", given.onnx}}, {given.net.File(), {"--weights", given.weights}}));
  ASSIGN_OR_RETURN(const SavedModel saved, CompleteFromFile(given.weights, flags, given.net));
  for (const std::string& note : saved.notes) absl::FPrintF(stderr, "neap: %s\n", note);
  ASSIGN_OR_RETURN(const Graph graph, given.net.Build());
  ASSIGN_OR_RETURN(const NamedValues weights, ReadWeightsOf(given, graph));
  RETURN_IF_ERROR(nets::WriteOnnx(given.onnx, graph, weights));
  return 0;
}

}  // namespace neap::apps
