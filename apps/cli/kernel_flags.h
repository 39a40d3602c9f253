// The flags that name the profile database and say how plans choose kernels by its times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/flags.h"
#include "apps/cli/output.h"
#include "apps/cli/progress.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/engine_options.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/memory/engines/kernel_options.h"

namespace neap::apps {

// The file that --database names; the default one if `given` is empty. Errors: those of
// DefaultProfilePath().
absl::StatusOr<std::string> ProfilePath(const std::string& given);

// The same file for CheckOutputs(): no output may overwrite it. The path is empty for --database
// none, and if the default has no place.
NamedFile DatabaseFile(const std::string& given);

// The database at `path` (empty: the default) for a device whose engines are `catalog`'s. Errors:
// those of ProfileDatabase::Open().
absl::StatusOr<ProfileDatabase> OpenProfile(const std::string& path,
                                            const DeviceDescription& device,
                                            const EngineCatalog& catalog);

// Prints the database's notices on stderr: on construction those so far, on destruction the rest.
// *Ownership*: borrows the database, which must not move.
class NoticePrinter {
 public:
  explicit NoticePrinter(const ProfileDatabase& database) : database_(database) { Print(); }
  ~NoticePrinter() { Print(); }
  NoticePrinter(const NoticePrinter&) = delete;
  NoticePrinter& operator=(const NoticePrinter&) = delete;

 private:
  void Print();

  const ProfileDatabase& database_;
  size_t printed_ = 0;
};

// Both report on stderr that measured times could not be read while planning. SayUnread() is for
// commands with a progress line, which it borrows.
void PrintUnread(const absl::Status& error);
ProfiledTimings::OnError SayUnread(ProgressLine& line);

// --half-accumulation.
void AddEnginesTo(FlagSet& flags, EngineOptions* engines);

// "undivided", "power-of-two", "all".
FlagValue ReadDivisions(DivisionPolicy* policy);

// "left-over", "gain", "best".
FlagValue ReadWorkspaceRule(std::string* rule);

// The flags on kernels, for commands that plan.
struct KernelFlags {
  std::string database;  // empty: the default, if it exists; "none": no measured times
  bool no_installed_times = false;
  DivisionPolicy divisions = DivisionPolicy::kAll;
  std::optional<int64_t> workspace_limit_bytes = {};
  std::string workspace_rule = "best";
  bool nondeterministic = false;
  EngineOptions engines = {};

  void AddTo(FlagSet& flags);
  void AddDatabaseTo(FlagSet& flags);  // only the database and which engines count
  // Whether measured times are used.
  bool reads_database() const;
  // Whether those that come with the library are.
  bool reads_installed_times() const;
  // The arguments of the `neap profile` that measures for these plans, as typed; only for plans
  // that read a database: " --database h200.db".
  std::string ProfileArguments() const;
  KernelOptions WithoutTimes() const;
  // Empty if no database is used. Errors: those of reading the database that --database names. If
  // the default one cannot be read, a line on stderr says so and the result is empty.
  absl::StatusOr<std::optional<ProfileDatabase>> OpenDatabase(ProfiledDevice device) const;
  // WithoutTimes() plus the times that the flags allow: the database's, and those that come with
  // the library for this device. Errors: those of OpenDatabase().
  absl::StatusOr<KernelOptions> Options(const DeviceDescription& device,
                                        const EngineCatalog& catalog,
                                        ProfiledTimings::OnError on_unread = PrintUnread) const;
};

}  // namespace neap::apps
