// neap profile: measures the engines of each step of a network, so that plans can choose by time.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/measuring_flags.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/optimizer_flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/cli/planning_flags.h"
#include "apps/cli/progress.h"
#include "apps/profile/engine_list.h"
#include "apps/profile/profiled_net.h"
#include "apps/profile/profiling_devices.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/program.h"
#include "neap/layers/profile/profiler.h"

namespace neap::apps {
namespace {

struct ProfileCommand {
  NetFlags net;
  MeasuringFlags measuring;
  OptimizerFlags optimizer;
  std::optional<int64_t> sub_batches;
  bool batch_norm_in_parts = false;
  std::optional<int64_t> workspace_limit_bytes;
  std::vector<std::string> merged;
  std::string csv_path;
  bool list = false;
  bool json = false;
};

void AddFlags(ProfileCommand& command, FlagSet& flags) {
  flags.OptionalPositional("NET", kNetHelp, &command.net.name);
  command.net.AddSizesTo(flags);
  AddSubBatches("1", &command.sub_batches, &command.batch_norm_in_parts, flags);
  command.optimizer.AddMemoryTo(flags);
  command.measuring.AddTo(flags, absl::StrCat("several, as in cuda:0,cuda:1, share the work; with "
                                              "--list also ",
                                              kDescribedDevices));
  flags.Add("workspace-limit", "BYTES", "leave out engines that need more workspace (2GiB)",
            ReadBytes(&command.workspace_limit_bytes));
  flags.Add("engines", "N",
            "measure only the first N engines of each step that the library recommends, and those "
            "that need less workspace than all before them (all)",
            Integer(1, 1000, &command.measuring.options.engines));
  flags.Add(
      "again",
      "measure again the engines that were measured before, e.g. on a busy machine; new times "
      "replace old ones",
      &command.measuring.options.again);
  flags.Add("retry-failed", "measure again the engines that failed to build or run before",
            &command.measuring.options.retry_failed);
  flags.Add("merge", "FILE", "first copy another database's measurements into this one",
            Texts(&command.merged));
  flags.Add("list",
            "measure and merge nothing; print the engines of each step with the times in the "
            "database",
            &command.list);
  flags.Add("csv", "FILE", "finally write all measurements, or the list, as a table",
            Text(&command.csv_path));
  flags.Add("json", "print one JSON object", &command.json);
}

absl::Status CheckFiles(const ProfileCommand& command) {
  std::vector<NamedFile> inputs = {DatabaseFile(command.measuring.database),
                                   DeviceFile(command.measuring.device)};
  for (const std::string& path : command.merged) inputs.push_back({"--merge", path});
  return CheckOutputs({{"--csv", command.csv_path}}, inputs);
}

struct Result {
  int64_t merged_rows = 0;
  ProfileWork work = {};
};

absl::StatusOr<ProfiledNet> NetOf(ProfileCommand& command) {
  ASSIGN_OR_RETURN(Graph graph, command.net.Build());
  return ProfiledNet{.graph = std::move(graph),
                     .optimizer = command.optimizer.Get(),
                     .sub_batches = command.sub_batches.value_or(1),
                     .batch_norm_in_parts = command.batch_norm_in_parts};
}

absl::StatusOr<ProfileWork> Profile(ProfileCommand& command, ProfilingDevices& devices) {
  ASSIGN_OR_RETURN(const ProfiledNet net, NetOf(command));
  ASSIGN_OR_RETURN(const std::vector<Program> programs, ProgramsOf(net, devices.description()));
  ProfileOptions options = command.measuring.options;
  if (command.workspace_limit_bytes.has_value())
    options.workspace_limit_bytes = *command.workspace_limit_bytes;
  WatchForInterrupt();
  ProgressLine line(absl::StrCat("profile ", command.net.name), "steps");
  return devices.Measure(programs, options, [&](const ProfileWork& work) {
    line.Show(work.steps_done, work.steps, absl::StrCat(work.measured, " engines"));
    return !Interrupted();
  });
}

absl::StatusOr<PlanTarget> OpenListed(const MeasuringFlags& measuring) {
  const DeviceChoices choices = {.engines = measuring.engines};
  if (!measuring.device.empty()) return OpenPlanTarget(measuring.device, choices);
  PlanTarget target;
  ASSIGN_OR_RETURN(target.device, OpenDevice("", choices));
  target.description = target.device->description();
  return target;
}

// Errors: NOT_FOUND if the file does not exist, or if the default has no place.
absl::StatusOr<ProfileDatabase> OpenListedTimes(const std::string& database,
                                                const ProfiledDevice& device) {
  ASSIGN_OR_RETURN(const std::string path, ProfilePath(database));
  return ProfileDatabase::OpenToRead(path, device);
}

// For a device whose library is not installed, lists the measured engines.
absl::StatusOr<EngineList> List(ProfileCommand& command) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenListed(command.measuring));
  ASSIGN_OR_RETURN(const ProfiledNet net, NetOf(command));
  ASSIGN_OR_RETURN(const std::vector<Program> programs, ProgramsOf(net, target.description));
  EngineList list = {.net = command.net.name,
                     .device = {target.description.name, target.engines().Versions()}};
  EngineSource source = {.catalog = &target.engines(), .options = command.measuring.engines};
  if (target.device == nullptr && list.device.versions.empty()) {
    const absl::StatusOr<MeasuredDevice> measured =
        OpenMeasuredDevice(command.measuring.database, target.name);
    if (measured.ok()) {
      list.device = measured->device;
      source.catalog = nullptr;
    } else if (!absl::IsNotFound(measured.status())) {
      return measured.status();
    }
  }
  absl::StatusOr<ProfileDatabase> database =
      OpenListedTimes(command.measuring.database, list.device);
  std::optional<NoticePrinter> notices;
  if (database.ok()) {
    notices.emplace(*database);
    list.database = database->path();
    source.database = &*database;
  } else if (command.measuring.database.empty() && absl::IsNotFound(database.status())) {
    absl::FPrintF(stderr, "neap: listing without times: %s\n",
                  std::string(database.status().message()));
  } else {
    return database.status();
  }
  if (!list.engines_are_known()) list.placeholder_engines = PlaceholderEnginesText(target);
  ASSIGN_OR_RETURN(list.kernels, ListKernels(programs, target.description, source));
  return list;
}

absl::StatusOr<int> RunList(ProfileCommand& command) {
  if (command.net.name.empty()) return BadUsage("--list needs a network");
  if (!command.merged.empty())
    return BadUsage("--list only reads; run --merge first, without --list");
  ASSIGN_OR_RETURN(const EngineList list, List(command));
  command.json ? PrintJson(ToJson(list)) : Print(ToText(list));
  if (!command.csv_path.empty()) RETURN_IF_ERROR(WriteTextFile(command.csv_path, ToCsv(list)));
  return 0;
}

// How reliable the new measurements are; empty if there is nothing to report.
std::string SpreadText(const ProfileWork& result) {
  if (result.measured == 0 || result.wide_spreads == 0) return "";
  if (!result.wide_spreads.has_value())
    return "the new measurements have one sample each, so their spread is unknown\n";
  return absl::StrFormat(
      "%d of the new measurements have a spread above %.0f%%; --again repeats them\n",
      *result.wide_spreads, kWideSpread * 100);
}

void PrintResult(const ProfileCommand& command, const ProfileDatabase& database,
                 const ProfileCounts& counts, const Result& result) {
  const ProfileWork& work = result.work;
  if (command.json) {
    return PrintJson({{"database", database.path()},
                      {"device", database.device().name},
                      {"versions", database.device().versions},
                      {"measured", work.measured},
                      {"known", work.known},
                      {"failed", work.failed},
                      {"left_out", work.left_out},
                      {"wide_spreads", OrNull(work.wide_spreads)},
                      {"merged", result.merged_rows},
                      {"interrupted", !work.is_whole()},
                      {"steps", work.steps},
                      {"steps_done", work.steps_done},
                      {"operations", counts.operations},
                      {"rows", counts.rows}});
  }
  Print(absl::StrFormat("%s: %d measurements of %d operations on %s (%s); %d new, %d merged\n",
                        database.path(), counts.measured, counts.operations, database.device().name,
                        database.device().versions, work.measured, result.merged_rows));
  Print(SpreadText(work));
  if (work.failed > 0) {
    Print(absl::StrFormat("%d engines failed; the database says why (--csv)\n", work.failed));
  }
  if (work.left_out > 0) {
    Print(absl::StrFormat(
        "%d engines were left out: in similar steps, or on a part of the batch, they "
        "were over a hundred times slower than others\n",
        work.left_out));
  }
  if (!work.is_whole()) {
    Print(InterruptedText(work.steps_done, work.steps, "steps") +
          "; run again, the command continues from here\n");
  }
}

absl::Status MergeAll(const ProfileCommand& command, ProfileDatabase& database, Result& result) {
  for (const std::string& path : command.merged) {
    ASSIGN_OR_RETURN(const int64_t rows, database.Merge(path));
    result.merged_rows += rows;
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RunMeasuring(ProfileCommand& command) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, SplitDevices(command.measuring.device));
  ASSIGN_OR_RETURN(ProfilingDevices devices,
                   ProfilingDevices::Open(names, {.engines = command.measuring.engines},
                                          command.measuring.database));
  ProfileDatabase& database = devices.database();
  const NoticePrinter notices(database);
  Result result;
  RETURN_IF_ERROR(MergeAll(command, database, result));
  ASSIGN_OR_RETURN(result.work, Profile(command, devices));
  if (!command.csv_path.empty()) RETURN_IF_ERROR(database.WriteCsv(command.csv_path));
  ASSIGN_OR_RETURN(const ProfileCounts counts, database.Counts());
  PrintResult(command, database, counts, result);
  return result.work.is_whole() ? 0 : InterruptedExitCode();
}

// The work that needs no device: merging, and writing a table.
absl::StatusOr<int> RunOnFiles(const ProfileCommand& command) {
  ASSIGN_OR_RETURN(const std::string path, ProfilePath(command.measuring.database));
  ASSIGN_OR_RETURN(ProfileDatabase database, command.merged.empty()
                                                 ? ProfileDatabase::OpenToRead(path, {})
                                                 : ProfileDatabase::Open(path, {}));
  const NoticePrinter notices(database);
  Result result;
  RETURN_IF_ERROR(MergeAll(command, database, result));
  if (!command.csv_path.empty()) RETURN_IF_ERROR(database.WriteCsv(command.csv_path));
  ASSIGN_OR_RETURN(const ProfileCounts counts, database.Counts());
  if (command.json) {
    PrintJson(
        {{"database", database.path()}, {"merged", result.merged_rows}, {"rows", counts.rows}});
  } else {
    Print(absl::StrFormat("%s: %d rows of all devices; %d merged\n", database.path(), counts.rows,
                          result.merged_rows));
  }
  return 0;
}

}  // namespace

absl::StatusOr<int> RunProfile(const std::vector<std::string>& args) {
  ProfileCommand command;
  FlagSet flags(
      "neap profile [NET] [flags]",
      "Measures how long each engine of each step of training and evaluating a network takes on a "
      "device,\nfor plans to choose by. Measured times are kept and not measured again: after an "
      "interruption,\nthe same command continues.");
  AddFlags(command, flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  RETURN_IF_ERROR(command.net.TakePlannedBatch(flags));
  RETURN_IF_ERROR(CheckFiles(command));
  RETURN_IF_ERROR(command.optimizer.Check(flags));
  RETURN_IF_ERROR(command.net.CheckEngines(command.measuring.engines));
  if (command.list) return RunList(command);
  if (!command.net.name.empty()) return RunMeasuring(command);
  if (!command.merged.empty() || !command.csv_path.empty()) return RunOnFiles(command);
  return BadUsage("nothing to do: name a network, --merge or --csv");
}

}  // namespace neap::apps
