// Kernel timings from a profile database, read once per operation.
//
//   ASSIGN_OR_RETURN(auto database, ProfileDatabase::Open(path, {name, catalog.Versions()}));
//   ProfiledTimings timings(std::move(database), [](const absl::Status& error) { Warn(error); });
//
// An operation whose times cannot be read counts as not measured, because times are only advice. To
// make the missing times visible, the first such error is reported to `on_error`, as is the first
// notice of the database about ignored rows or a file that was set aside.
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

// The operation of sums over ranks. Their `batch` is the number of bytes.
std::string SumOperation(int ranks);

class ProfiledTimings final : public KernelTimings {
 public:
  // `on_error` is called at most once, and must not call this object.
  using OnError = std::function<void(const absl::Status&)>;
  explicit ProfiledTimings(ProfileDatabase database, OnError on_error = nullptr)
      : database_(std::move(database)), on_error_(std::move(on_error)) {}

  std::vector<TimedEngine> Of(const StepSignature& signature) const override;
  std::vector<std::string> FailedOn(const StepSignature& signature) const override;
  std::vector<TimedSum> Sums(int ranks) const override;

 private:
  struct Known {
    std::vector<TimedEngine> engines;
    std::vector<EngineUse> failed;
  };
  // Null if the rows cannot be read.
  const Known* Find(const std::string& operation) const;

  mutable std::mutex mutex_;                               // guards all members
  mutable ProfileDatabase database_;                       // reading may set a damaged file aside
  mutable OnError on_error_;                               // null once called
  mutable absl::node_hash_map<std::string, Known> known_;  // by operation
};

}  // namespace neap
