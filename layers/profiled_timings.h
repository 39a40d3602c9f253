// Timings from a profile database, read once per operation.
//
//   ASSIGN_OR_RETURN(auto database, ProfileDatabase::Open(path, {name, catalog.Versions()}));
//   ProfiledTimings timings(std::move(database));
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "neap/layers/kernel_timings.h"
#include "neap/layers/profile_database.h"

namespace neap {

class ProfiledTimings final : public KernelTimings {
 public:
  explicit ProfiledTimings(ProfileDatabase database) : database_(std::move(database)) {}

  std::vector<TimedEngine> Of(const StepSignature& signature) const override;
  std::vector<std::string> FailedOn(const StepSignature& signature) const override;

 private:
  struct Known {
    std::vector<TimedEngine> engines;
    std::vector<EngineUse> failed;
  };
  // Null where the rows cannot be read.
  const Known* Find(const StepSignature& signature) const;

  mutable std::mutex mutex_;          // over both
  mutable ProfileDatabase database_;  // reading may find that the file is to be set aside
  mutable absl::node_hash_map<std::string, Known> known_;  // by operation
};

}  // namespace neap
