// neap profile: measures how long each engine of each of a network's steps takes, for plans to
// choose by.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/device_flag.h"
#include "apps/flags.h"
#include "apps/interrupt.h"
#include "apps/net_flags.h"
#include "apps/outcome.h"
#include "apps/output.h"
#include "apps/profile_flags.h"
#include "neap/core/profiler.h"
#include "neap/core/program.h"
#include "neap/core/status_macros.h"

namespace neap::apps {
namespace {

struct ProfileCommand {
  NetFlags net;
  std::string database;
  std::string device;
  ProfileOptions options;
  std::optional<int64_t> workspace_limit_bytes;
  std::vector<std::string> merged;
  std::string csv_path;
  bool json = false;
};

void AddFlags(ProfileCommand& command, FlagSet& flags) {
  flags.OptionalPositional("NET", &command.net.name);
  command.net.AddSizesTo(flags);
  flags.Add("device", "DEVICE", "cpu or cuda:N (cuda:0 if there is one, else cpu)",
            Text(&command.device));
  flags.Add("database", "FILE", "where times are kept (profile.db in ~/.cache/neap)",
            Text(&command.database));
  flags.Add("divisions", "POLICY", "which parts of a batch convolutions are measured on",
            ReadDivisions(&command.options.divisions));
  flags.Add("workspace-limit", "BYTES", "engines that want more are left out (2GiB)",
            ReadBytes(&command.workspace_limit_bytes));
  flags.Add("samples", "N", "samples behind a median, at least",
            Integer(1, 1000, &command.options.samples));
  flags.Add("merge", "FILE", "first take over another database's measurements",
            Texts(&command.merged));
  flags.Add("csv", "FILE", "at last write all measurements as a table", Text(&command.csv_path));
  flags.Add("json", "print one JSON object", &command.json);
}

// "profile resnet50 [#########.......] 112/180 steps, 840 engines" on one line that rewrites
// itself.
void ShowProgress(const std::string& net, const Profiler& profiler) {
  constexpr int kWidth = 32;
  const auto filled =
      static_cast<int>(profiler.done() * kWidth / std::max<int64_t>(profiler.total(), 1));
  absl::FPrintF(stderr, "\rprofile %s [%s%s] %d/%d steps, %d engines", net,
                std::string(static_cast<size_t>(filled), '#'),
                std::string(static_cast<size_t>(kWidth - filled), '.'), profiler.done(),
                profiler.total(), profiler.measured());
  std::fflush(stderr);
}

// Whether all was measured; false after Ctrl-C.
absl::StatusOr<bool> Measure(Profiler& profiler, const std::string& net) {
  WatchForInterrupt();
  while (profiler.done() < profiler.total() && !Interrupted()) {
    ShowProgress(net, profiler);
    RETURN_IF_ERROR(profiler.MeasureNext());
  }
  ShowProgress(net, profiler);
  std::fputs("\n", stderr);
  return profiler.done() == profiler.total();
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
  ProfileOptions options = command.options;
  if (command.workspace_limit_bytes.has_value())
    options.workspace_limit_bytes = *command.workspace_limit_bytes;
  ASSIGN_OR_RETURN(Profiler profiler,
                   Profiler::Create(KernelsOf(program), options, device, database));
  ASSIGN_OR_RETURN(result.is_whole, Measure(profiler, command.net.name));
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
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenDevice(command.device));
  ASSIGN_OR_RETURN(ProfileDatabase database,
                   OpenProfile(command.database, device->description(), device->backend()));
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
