// The files of a dataset that could not be read or decoded, and whose place others have taken
// (--skip-bad).
//
// Each of several ranks has read some of the files; their lists are joined at the end of an epoch.
//
// *Threads*: Add() may be called from several at once, and during TakeNew().
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/communicator.h"

namespace neap::apps {

class BadFiles {
 public:
  // The error names the file.
  void Add(const absl::Status& error);
  // The errors that were added since the last call and not before, on any rank, sorted. Called by
  // all ranks together. Errors: those of the communicator, which is null for one rank.
  absl::StatusOr<std::vector<std::string>> TakeNew(Communicator* communicator);
  // Whether an error of this file was added since the last TakeNew().
  bool Has(const std::string& file);
  // How many were taken so far, on all ranks.
  int64_t taken() const { return static_cast<int64_t>(taken_.size()); }

 private:
  std::mutex mutex_;
  std::set<std::string> added_;  // and not taken
  std::set<std::string> taken_;
};

// "skipped 1 files that cannot be decoded, 3 in all", and a line for each error.
std::string BadFilesText(const std::vector<std::string>& errors, int64_t all);

}  // namespace neap::apps
