// The devices of a profile: one, or several equal ones that share the kernels, which are measured
// in parallel into one database (layers/profile/profile_shares.h).
//
// Each device has a thread, the first one that of the caller, and a connection to the database of
// its own. If one fails, the others stop after the sample that they are at, and what was measured
// is kept.
//
//   ASSIGN_OR_RETURN(ProfilingDevices devices,
//                    ProfilingDevices::Open({"cuda:0", "cuda:1"}, {}, /*database=*/""));
//   ASSIGN_OR_RETURN(const std::vector<Program> programs,
//                    ProgramsOf(profiled, devices.description()));
//   ASSIGN_OR_RETURN(const ProfileWork work, devices.Measure(programs, options, on_progress));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiler.h"

namespace neap::apps {

// The work that was done, on all devices together.
struct ProfileWork {
  int64_t steps = 0, steps_done = 0;                          // fewer steps done if it was stopped
  int64_t measured = 0, known = 0, failed = 0, left_out = 0;  // engines
  std::optional<int64_t> wide_spreads = {};  // absent if there is one sample of each

  bool is_whole() const { return steps_done == steps; }
};

class ProfilingDevices {
 public:
  struct Member {
    std::string name;  // as --device has it
    std::unique_ptr<Device> device;
    ProfileDatabase database;
  };
  // Called before each engine and each sample, by one thread at a time, with what was done so far;
  // all devices stop if it returns false.
  using OnProgress = std::function<bool(const ProfileWork&)>;

  // `names` are those of OpenDevice(), `database` is a path or empty for the default. Errors: those
  // of OpenDevice(), ProfileDatabase::Open() and Of().
  static absl::StatusOr<ProfilingDevices> Open(const std::vector<std::string>& names,
                                               const DeviceChoices& choices,
                                               const std::string& database);
  // There must be at least one member. Errors: INVALID_ARGUMENT for devices of different names or
  // library versions, whose times are not those of each other.
  static absl::StatusOr<ProfilingDevices> Of(std::vector<Member> members);

  const DeviceDescription& description() const { return members_.front().device->description(); }
  ProfileDatabase& database() { return members_.front().database; }

  // Measures what the database lacks of the programs' kernels. Errors: those of the profiler,
  // beginning with the device's name if there are several: the first of a device that failed.
  absl::StatusOr<ProfileWork> Measure(const std::vector<Program>& programs,
                                      const ProfileOptions& options, const OnProgress& on_progress);

 private:
  explicit ProfilingDevices(std::vector<Member> members) : members_(std::move(members)) {}
  // The kernels that each device measures.
  absl::StatusOr<std::vector<std::vector<StepSignature>>> Divide(
      const std::vector<Program>& programs, const ProfileOptions& options);

  std::vector<Member> members_;
};

}  // namespace neap::apps
