// Timings from a profile database, read once per operation.
//
//   ASSIGN_OR_RETURN(auto database, ProfileDatabase::Open(path, {name, catalog.Versions()}));
//   ProfiledTimings timings(std::move(database), [](const absl::Status& error) { Warn(error); });
//
// An operation whose times cannot be read counts as not measured: times are advice. So that nobody
// takes a plan made without them for one made with them, the first such error is reported, and so
// is the first notice of the database, about rows that it ignores or a file that was set aside.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/profile/profile_database.h"

namespace neap {

class ProfiledTimings final : public KernelTimings {
 public:
  // `on_error`: called once at most; it must not call this object.
  using OnError = std::function<void(const absl::Status&)>;
  explicit ProfiledTimings(ProfileDatabase database, OnError on_error = nullptr)
      : database_(std::move(database)), on_error_(std::move(on_error)) {}

  std::vector<TimedEngine> Of(const StepSignature& signature) const override;
  std::vector<std::string> FailedOn(const StepSignature& signature) const override;

 private:
  struct Known {
    std::vector<TimedEngine> engines;
    std::vector<EngineUse> failed;
  };
  // Null where the rows cannot be read.
  const Known* Find(const StepSignature& signature) const;

  mutable std::mutex mutex_;          // over all
  mutable ProfileDatabase database_;  // reading may find that the file is to be set aside
  mutable OnError on_error_;          // null once called
  mutable absl::node_hash_map<std::string, Known> known_;  // by operation
};

}  // namespace neap
