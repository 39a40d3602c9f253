// How a subcommand ends: a status, and the process's exit code for it.
//
// 0: success; 1: failure; 2: bad command line; 130: stopped by Ctrl-C; 143: stopped by SIGTERM
// (apps/cli/interrupt.h); 141: the reader of the standard output has gone, as in `neap ... | head`.
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

// A subcommand maps the arguments after its name to an exit code.
using Subcommand = absl::StatusOr<int> (*)(const std::vector<std::string>& args);

absl::StatusOr<int> RunPlan(const std::vector<std::string>& args);
absl::StatusOr<int> RunTrain(const std::vector<std::string>& args);
absl::StatusOr<int> RunEval(const std::vector<std::string>& args);
absl::StatusOr<int> RunPredict(const std::vector<std::string>& args);
absl::StatusOr<int> RunExport(const std::vector<std::string>& args);
absl::StatusOr<int> RunPeakBatch(const std::vector<std::string>& args);
absl::StatusOr<int> RunPeakDepth(const std::vector<std::string>& args);
absl::StatusOr<int> RunProfile(const std::vector<std::string>& args);
absl::StatusOr<int> RunBench(const std::vector<std::string>& args);
absl::StatusOr<int> RunPaper(const std::vector<std::string>& args);
absl::StatusOr<int> RunNets(const std::vector<std::string>& args);
absl::StatusOr<int> RunDevices(const std::vector<std::string>& args);

// Returns the result of `run`. Exceptions become errors: RESOURCE_EXHAUSTED if the system refuses
// memory, UNAVAILABLE if it refuses anything else (a thread, for example), otherwise INTERNAL.
absl::StatusOr<int> Caught(const std::function<absl::StatusOr<int>()>& run);

// Prints an error as one line on stderr and returns the exit code. Any failed write to the standard
// output, however early, is an error; if its reader has gone, one that is not printed.
int Finish(const absl::StatusOr<int>& outcome);

}  // namespace neap::apps
