// How a subcommand ends: a status, and the process's exit code for it.
//
// 0 it did what was asked, 1 it could not, 2 the command line makes no sense, 130 stopped by
// Ctrl-C, 143 by SIGTERM (apps/cli/interrupt.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace neap::apps {

// INVALID_ARGUMENT, marked so that the process exits with 2.
absl::Status BadUsage(const std::string& message);
// The same message, as bad usage.
absl::Status AsBadUsage(const absl::Status& status);

// What one subcommand is: its arguments after its name, to its exit code.
using Subcommand = absl::StatusOr<int> (*)(const std::vector<std::string>& args);

absl::StatusOr<int> RunPlan(const std::vector<std::string>& args);
absl::StatusOr<int> RunTrain(const std::vector<std::string>& args);
absl::StatusOr<int> RunEval(const std::vector<std::string>& args);
absl::StatusOr<int> RunPredict(const std::vector<std::string>& args);
absl::StatusOr<int> RunPeakBatch(const std::vector<std::string>& args);
absl::StatusOr<int> RunPeakDepth(const std::vector<std::string>& args);
absl::StatusOr<int> RunProfile(const std::vector<std::string>& args);
absl::StatusOr<int> RunBench(const std::vector<std::string>& args);
absl::StatusOr<int> RunNets(const std::vector<std::string>& args);
absl::StatusOr<int> RunDevices(const std::vector<std::string>& args);

// What `run` returns. What it throws is an error, too: RESOURCE_EXHAUSTED for memory that the
// system refuses, UNAVAILABLE for anything else that it refuses, a thread for example; else
// INTERNAL.
absl::StatusOr<int> Caught(const std::function<absl::StatusOr<int>()>& run);

// Prints an error as one line on stderr; returns the exit code. What could not be written to the
// standard output, at whatever time, is an error.
int Finish(const absl::StatusOr<int>& outcome);

}  // namespace neap::apps
