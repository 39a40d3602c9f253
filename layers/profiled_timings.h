// Timings from a profile database, read once per operation.
//
//   ASSIGN_OR_RETURN(auto database, ProfileDatabase::Open(path, {name, catalog.Versions()}));
//   ProfiledTimings timings(std::move(database));
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "neap/layers/kernel_timings.h"
#include "neap/layers/profile_database.h"

namespace neap {

class ProfiledTimings final : public KernelTimings {
 public:
  explicit ProfiledTimings(ProfileDatabase database) : database_(std::move(database)) {}

  std::vector<TimedEngine> Of(const StepSignature& signature) const override;

 private:
  mutable std::mutex mutex_;          // over both
  mutable ProfileDatabase database_;  // reading may find that the file is to be set aside
  mutable absl::flat_hash_map<std::string, std::vector<TimedEngine>> known_;  // by operation
};

}  // namespace neap
