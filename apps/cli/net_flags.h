// Which network, of what size: NET and the flags that go with it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/flags.h"
#include "neap/core/graph/graph.h"
#include "neap/nets/registry.h"

namespace neap::apps {

// What NET is, in --help.
inline constexpr char kNetHelp[] = "a network (neap nets lists them)";

struct NetFlags {
  std::string name;
  nets::NetOptions options = {.batch = 32};
  std::string dtype = "fp32";
  std::string layout = "nchw";

  // The flags refer to this object, which must stay where it is.
  void AddTo(FlagSet& flags);
  // Parts of it.
  void AddSizesTo(FlagSet& flags);  // all but NET
  void AddBatchTo(FlagSet& flags);
  void AddDepthTo(FlagSet& flags);
  void AddFormatTo(FlagSet& flags);  // element type and layout
  void AddShapesTo(FlagSet& flags);  // those and the images
  // What was given but NET and batch, as it is typed: " --dtype tf32 --depth 32".
  std::string Arguments() const;
  // Errors: BadUsage() for an unknown network or what it cannot be given.
  absl::StatusOr<Graph> Build();
};

}  // namespace neap::apps
