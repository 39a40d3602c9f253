// Kernel times that come with the library, for devices that many have: plans then know the times
// of the usual networks before anything was measured here.
//
// They are a profile database as text (scripts/installed_profile.py, which describes the format),
// compiled into the library, so that it does not matter where that is installed. A text has a
// megabyte for 13,000 operations; it is read once per process, in some 20 ms, when a device of its
// name is first asked for. Only a hash of an operation's text is kept.
//
//   const InstalledProfile* profile = FindInstalledProfile("NVIDIA H200");
//   if (profile != nullptr) profile->Of(SignatureText(signature));
//
// *Threads*: any number at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/profile/profile_row.h"

namespace neap {

class InstalledProfile {
 public:
  // Errors: INVALID_ARGUMENT, naming the line, for what is not such a text or has numbers that a
  // database would not have (CheckPossible).
  static absl::StatusOr<InstalledProfile> Parse(std::string_view text);

  // The device that was measured, and the versions of its libraries.
  const ProfiledDevice& device() const { return device_; }
  size_t operations() const { return rows_of_.size(); }
  // Engines by batch, then time. Empty for an operation (SignatureText) that was not measured.
  std::vector<TimedEngine> Of(std::string_view operation) const;

 private:
  friend class InstalledProfileParser;
  struct Row {
    int64_t workspace_bytes = 0;
    double seconds = 0;
    uint32_t batch = 0;
    uint32_t engine = 0;  // index into engines_
    bool deterministic = true;
  };
  struct RowRange {
    size_t begin = 0;
    size_t end = 0;
  };

  ProfiledDevice device_;
  std::vector<Engine> engines_;  // without the workspaces and bits of rows
  std::vector<Row> rows_;
  absl::flat_hash_map<uint64_t, RowRange> rows_of_;  // by StableHash of the operation
};

// The profile of a device of this name (DeviceDescription::name); null if the library has none.
const InstalledProfile* FindInstalledProfile(std::string_view device_name);

}  // namespace neap
