// Sequences of runs as text, for tests: "conv1 relu1 ... relu1* conv1' ", where * is a rerun and '
// a backward step.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/program/lifetimes.h"

namespace neap::testing {

// Forward steps are left out before the first backward step, updates always; the backward steps of
// a layer that follow each other are one.
inline std::string BackwardOf(const Program& program, const ComputeSequence& runs) {
  std::string text;
  std::string last;
  bool turned = false;
  for (const Run& run : runs) {
    const Step& step = program.steps[run.step.index()];
    turned = turned || step.phase != Phase::kForward || run.recompute;
    if (!turned || step.phase == Phase::kUpdate) continue;
    const std::string name =
        absl::StrCat(program.layers[step.layer.index()].name, run.recompute ? "*" : "'");
    if (name == last && !run.recompute) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", name);
    last = name;
  }
  return text;
}

}  // namespace neap::testing
