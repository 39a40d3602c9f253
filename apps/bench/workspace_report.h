// The results of `neap bench workspace` as tables, as JSON and as CSV.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/workspace_comparison.h"
#include "apps/cli/output.h"

namespace neap::apps {

struct WorkspaceReport {
  std::string net;
  std::string format;  // "tf32 nchw"
  std::string policy;
  std::string device;
  std::string versions;
  // The command, without --batch, that measures its kernels: "neap profile lenet --dtype tf32".
  // Empty if no measured times were read.
  std::string profile;
  std::vector<std::string> rules;
  std::vector<WorkspaceRun> runs;  // in order of budget, batch and rule
  int64_t plans = 0;               // requested; more than `runs` has after Ctrl-C

  bool is_whole() const { return static_cast<int64_t>(runs.size()) == plans; }
};

std::string ToText(const WorkspaceReport& report);
// The workspaces that the default rule gives to each convolution step.
std::string PerStepTables(const WorkspaceReport& report);
Json ToJson(const WorkspaceReport& report);
// One line per run, and one for each of its convolution steps.
std::string ToCsv(const WorkspaceReport& report);

}  // namespace neap::apps
