// NET and the flags that choose the network's size and format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/flags.h"
#include "apps/cli/output.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/graph/graph.h"
#include "neap/layers/catalog/engine_options.h"
#include "neap/nets/registry.h"

namespace neap::apps {

// The text on NET in --help.
inline constexpr char kNetHelp[] =
    "a network (neap nets lists them), nnunet:FILE with plans of nnU-Net, or a file that ends in "
    ".onnx";
// The same for commands that take the network from the file of --weights if NET is not given.
inline constexpr char kOptionalNetHelp[] =
    "a network (neap nets lists them), nnunet:FILE with plans of nnU-Net, or a file that ends in "
    ".onnx; without\nit, the one that the file of --weights names";

// Whether the name is that of an ONNX file: it ends in .onnx.
bool IsOnnxFile(const std::string& name);

// Limits images in a batch, classes and other numbers of a network.
inline constexpr int64_t kMaxNetNumber = int64_t{1} << 24;

struct NetFlags {
  std::string name;
  // A network of the caller's own instead of one by name; of the flags, it takes only the batch.
  std::optional<Graph> graph = {};
  // Commands that read volumes for training or evaluation do without other normalizations.
  nets::NetOptions options = {.batch = 32, .other_normalizations = true};
  std::string loss = "cross-entropy";
  std::optional<float> label_smoothing = {};
  std::string dtype = "fp32";
  std::string layout = "nchw";
  bool no_fusion = false;
  bool has_printed_notices = false;  // of an ONNX file, on stderr

  // The flags refer to this object, which must not move.
  void AddTo(FlagSet& flags);
  // Subsets of these flags.
  void AddSizesTo(FlagSet& flags);  // all but NET
  void AddBatchTo(FlagSet& flags);
  void AddDepthTo(FlagSet& flags);
  void AddFormatTo(FlagSet& flags);  // element type and layout
  void AddShapesTo(FlagSet& flags);  // the format, fusion and the images
  void AddImagesTo(FlagSet& flags);  // the images, and what depends on the network
  void AddLossTo(FlagSet& flags);
  // The flags that differ from their defaults, except the batch, as typed: " --dtype tf32".
  std::string Arguments() const;
  // The flags among them that weights or their predictions depend on: " --depth 20" as two texts.
  std::vector<std::string> NetworkFlags() const;
  // Errors: BadUsage() for an unknown network or an option that it does not take; those of
  // ReadOnnx() (nets/onnx/onnx_file.h).
  absl::StatusOr<Graph> Build();
  // Takes the batch that a plans file has, unless `flags` were given another. Errors: those of
  // Build().
  absl::Status TakePlannedBatch(const FlagSet& flags);
  // The weights that come with the network: those of an ONNX file.
  absl::StatusOr<std::optional<NamedValues>> Weights();
  // BadUsage(), of a command that needs weights and was given neither such a file nor --weights.
  absl::Status WeightsMissing() const;
  // The ONNX file, for CheckOutputs(); the path is empty for other networks.
  NamedFile File() const;
  // Errors: BadUsage() for engines that the element type does not have.
  absl::Status CheckEngines(const EngineOptions& engines) const;

 private:
  absl::Status ParseFormat();
  absl::StatusOr<Graph> BuildAsGiven();  // with the loss that comes with it
};

}  // namespace neap::apps
