// Where measured times are kept, and how plans choose kernels by them.
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
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/memory/engines/kernel_options.h"

namespace neap::apps {

// The file that --database names; empty: the default. Errors: those of DefaultProfilePath().
absl::StatusOr<std::string> ProfilePath(const std::string& given);

// The same file for CheckOutputs(): no output may replace it. Without a path where --database says
// none, or where there is no place for the default.
NamedFile DatabaseFile(const std::string& given);

// The database at `path` (empty: the default) for a device whose engines are `catalog`'s. Errors:
// those of ProfileDatabase::Open().
absl::StatusOr<ProfileDatabase> OpenProfile(const std::string& path,
                                            const DeviceDescription& device,
                                            const EngineCatalog& catalog);

// Says on stderr what was set aside: at its beginning what has been by then, at its end the rest.
// *Ownership*: borrows the database, which must stay where it is.
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

// Say on stderr that measured times could not be read while they were used; the other, which
// borrows it, where there is a line of progress.
void PrintUnread(const absl::Status& error);
ProfiledTimings::OnError SayUnread(ProgressLine& line);

// "undivided", "power-of-two", "all".
FlagValue ReadDivisions(DivisionPolicy* policy);

// For commands that plan.
struct KernelFlags {
  std::string database;  // empty: the default, if it is there; "none": no database
  DivisionPolicy divisions = DivisionPolicy::kAll;
  std::optional<int64_t> workspace_limit_bytes = {};
  std::string workspace_rule = "best";
  bool nondeterministic = false;

  void AddTo(FlagSet& flags);
  void AddDatabaseTo(FlagSet& flags);  // and which of its times count; a part of them
  // Whether measured times count at all.
  bool reads_database() const;
  // What a `neap profile` that measures for these plans is to be given, as it is typed, where they
  // read a database: " --database h200.db".
  std::string ProfileArguments() const;
  KernelOptions WithoutTimes() const;
  // Empty where none is to be used. Errors: those of reading a database that was named. Of the
  // default one they are a line on stderr, and nothing was measured.
  absl::StatusOr<std::optional<ProfileDatabase>> OpenDatabase(ProfiledDevice device) const;
  // Both. Errors: those of OpenDatabase().
  absl::StatusOr<KernelOptions> Options(const DeviceDescription& device,
                                        const EngineCatalog& catalog,
                                        ProfiledTimings::OnError on_unread = PrintUnread) const;
};

}  // namespace neap::apps
