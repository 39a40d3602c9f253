// The networks by name, for the command line: the NET of `neap plan NET` and `neap train NET`.
//
// A plans file of nnU-Net is a network, too: "nnunet:FILE", or "nnunet:FILE#CONFIGURATION"
// (nets/segmentation/nnunet_plans.h).
//
// Users enter these options, so unlike the builders this checks them: an impossible depth, a
// million blocks or an image of 10^9 pixels a side results in a one-line error, not in an overflow.
//
//   ASSIGN_OR_RETURN(Graph net, nets::Build("resnet50", {.batch = 128, .image = 192}));
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"

namespace neap::nets {

struct Network {
  std::string_view name;
  std::string_view description;  // one line
  int64_t image = 0;     // each spatial extent by default: height and width of images, or tokens
  int64_t channels = 0;  // by default
  int64_t classes = 0;   // by default; those of tokens are the vocabulary
  int axes = 2;          // 3: volumes; 1: sequences of tokens, which have no channels

  bool reads_tokens() const { return axes == 1; }
  // "3x224x224": channels and spatial extents by default. "1024 tokens".
  std::string input() const;
};

// All networks, in the order of the command line's list.
std::vector<Network> Networks();

// Absent options have the network's defaults. Of networks of tokens, `image` is the number of
// tokens and `classes` the vocabulary.
struct NetOptions {
  std::optional<int64_t> batch = {};
  std::optional<int64_t> image = {};
  std::optional<int64_t> channels = {};
  std::optional<int64_t> classes = {};
  std::optional<int64_t> depth = {};                  // by the rule in the network's description
  std::optional<std::array<int64_t, 4>> blocks = {};  // "resnet" and "densenet" only
  std::optional<int64_t> growth_rate = {};            // "densenet..." without a number only
  std::optional<float> dropout = {};                  // probability; for networks with dropout
  bool aux_logits = false;            // auxiliary classifiers; for networks that can have them
  bool other_normalizations = false;  // NnUNetPlansOptions::other_normalizations
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Whether the name is that of a plans file: "nnunet:FILE" or "nnunet:FILE#CONFIGURATION".
bool IsPlansName(std::string_view name);

// The depths that a network accepts: step * n + offset with n from 1 to most_n.
struct Depths {
  int64_t step = 0;  // 0: the depth is fixed
  int64_t offset = 0;
  int64_t most_n = 0;
};
// Errors: NOT_FOUND as in Build().
absl::StatusOr<Depths> DepthsOf(std::string_view name);

// Errors: NOT_FOUND for an unknown name, with the closest known names; INVALID_ARGUMENT for an
// option that is out of range or that this network does not have; those of a plans file. Shapes are
// checked by Resolve().
absl::StatusOr<Graph> Build(std::string_view name, const NetOptions& options);

// The number of learned values: weights, biases, batch norm's gamma and beta, but not its running
// statistics.
int64_t ParameterCount(const ResolvedGraph& graph);

}  // namespace neap::nets
