// neap profile: measures how long each engine of each of a network's steps takes, for plans to
// choose by.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "apps/device_flag.h"
#include "apps/flags.h"
#include "apps/measuring_flags.h"
#include "apps/net_flags.h"
#include "apps/outcome.h"
#include "apps/output.h"
#include "apps/profile_flags.h"
#include "apps/progress.h"
#include "neap/core/profiler.h"
#include "neap/core/program.h"
#include "neap/core/status_macros.h"

namespace neap::apps {
namespace {

struct ProfileCommand {
  NetFlags net;
  MeasuringFlags measuring;
  std::optional<int64_t> workspace_limit_bytes;
  std::vector<std::string> merged;
  std::string csv_path;
  bool json = false;
};

void AddFlags(ProfileCommand& command, FlagSet& flags) {
  flags.OptionalPositional("NET", &command.net.name);
  command.net.AddSizesTo(flags);
  command.measuring.AddTo(flags);
  flags.Add("workspace-limit", "BYTES", "engines that want more are left out (2GiB)",
            ReadBytes(&command.workspace_limit_bytes));
  flags.Add("merge", "FILE", "first take over another database's measurements",
            Texts(&command.merged));
  flags.Add("csv", "FILE", "at last write all measurements as a table", Text(&command.csv_path));
  flags.Add("json", "print one JSON object", &command.json);
}

struct Result {
  bool is_whole = true;
  int64_t merged_rows = 0;
  int64_t measured = 0, known = 0, failed = 0;
};

absl::Status Profile(ProfileCommand& command, Device& device, ProfileDatabase& database,
                     Result& result) {
  ASSIGN_OR_RETURN(const Graph graph, command.net.Build());
  ASSIGN_OR_RETURN(const Program program, BuildProgram(graph, {.mode = Mode::kTraining}));
  ProfileOptions options = command.measuring.options;
  if (command.workspace_limit_bytes.has_value())
    options.workspace_limit_bytes = *command.workspace_limit_bytes;
  ASSIGN_OR_RETURN(Profiler profiler,
                   Profiler::Create(KernelsOf(program), options, device, database));
  ASSIGN_OR_RETURN(result.is_whole, MeasureAll(profiler, command.net.name));
  result.measured = profiler.measured();
  result.known = profiler.known();
  result.failed = profiler.failed();
  return absl::OkStatus();
}

void PrintResult(const ProfileCommand& command, const ProfileDatabase& database,
                 const ProfileCounts& counts, const Result& result) {
  if (command.json) {
    return PrintJson({{"database", database.path()},
                      {"device", database.device().name},
                      {"versions", database.device().versions},
                      {"measured", result.measured},
                      {"known", result.known},
                      {"failed", result.failed},
                      {"merged", result.merged_rows},
                      {"complete", result.is_whole},
                      {"operations", counts.operations},
                      {"rows", counts.rows}});
  }
  Print(absl::StrFormat("%s: %d measurements of %d operations on %s (%s); %d new, %d merged\n",
                        database.path(), counts.measured, counts.operations, database.device().name,
                        database.device().versions, result.measured, result.merged_rows));
  if (result.failed > 0) {
    Print(
        absl::StrFormat("%d engines did not run; the database says why (--csv)\n", result.failed));
  }
}

}  // namespace

absl::StatusOr<int> RunProfile(const std::vector<std::string>& args) {
  ProfileCommand command;
  FlagSet flags("neap profile [NET] [flags]",
                "Measures how long each engine of each of a network's steps takes on a device, for "
                "plans to\nchoose by. What was measured is kept and not measured again, so that "
                "an interrupted profile\ngoes on where it was.");
  AddFlags(command, flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) {
    Print(flags.HelpText());
    return 0;
  }
  if (command.net.name.empty() && command.merged.empty() && command.csv_path.empty())
    return BadUsage("nothing to do: name a network, --merge or --csv");
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenDevice(command.measuring.device));
  ASSIGN_OR_RETURN(ProfileDatabase database, OpenProfile(command.measuring.database,
                                                         device->description(), device->backend()));
  Result result;
  for (const std::string& path : command.merged) {
    ASSIGN_OR_RETURN(const int64_t rows, database.Merge(path));
    result.merged_rows += rows;
  }
  if (!command.net.name.empty()) RETURN_IF_ERROR(Profile(command, *device, database, result));
  if (!command.csv_path.empty()) RETURN_IF_ERROR(database.WriteCsv(command.csv_path));
  PrintNotices(database);
  ASSIGN_OR_RETURN(const ProfileCounts counts, database.Counts());
  PrintResult(command, database, counts, result);
  return result.is_whole ? 0 : kExitInterrupted;
}

}  // namespace neap::apps
