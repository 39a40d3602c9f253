// The flags that choose an optimizer.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "apps/cli/flags.h"
#include "neap/core/step/optimizer.h"

namespace neap::apps {

struct OptimizerFlags {
  std::string rule = "sgd";

  // The flags refer to this object, which must not move.
  void AddTo(FlagSet& flags);
  // Adds those on which memory and the optimizer's steps depend, for a command that does not train.
  void AddMemoryTo(FlagSet& flags);
  // Errors: BadUsage() for a flag of another rule, or Nesterov's without momentum.
  absl::Status Check(const FlagSet& flags) const;
  Optimizer Get() const;
  // Gives the flags the values of this optimizer.
  void Set(const Optimizer& optimizer);

 private:
  Optimizer values_;  // without the rule
};

}  // namespace neap::apps
