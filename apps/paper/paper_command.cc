// neap paper: the tables and figures of the papers, beside what neap plans or measures.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/paper/paper_chart.h"
#include "apps/paper/paper_item.h"
#include "apps/paper/paper_report.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/profile/profile_database.h"

namespace neap::apps {
namespace {

constexpr int64_t kMaxSteps = 1'000'000;
constexpr char kList[] = "list";

struct PaperCommand {
  std::string name;
  PaperRun run;
  std::string out;
  bool json = false;
};

std::string NeedsText(PaperNeeds needs) {
  switch (needs) {
    case PaperNeeds::kNothing:
      return "planned";
    case PaperNeeds::kTimes:
      return "times";
    case PaperNeeds::kDevice:
      return "device";
  }
  return "";
}

std::string ListText(const std::vector<PaperItem>& items) {
  std::string text = absl::StrFormat("%-15s  %-7s  %s\n", "item", "needs", "the paper shows");
  for (const PaperItem& item : items) {
    absl::StrAppendFormat(&text, "%-15s  %-7s  %s, %s: %s\n", item.name, NeedsText(item.needs),
                          item.paper, item.place, item.shows);
  }
  absl::StrAppend(&text,
                  "\nplanned: needs no GPU; with --device for that device instead of the paper's\n"
                  "times:   of convolutions, measured on --device or read from --database\n"
                  "device:  measured on --device\n");
  return text;
}

Json ListJson(const std::vector<PaperItem>& items) {
  Json all = Json::array();
  for (const PaperItem& item : items) {
    all.push_back({{"item", item.name},
                   {"paper", item.paper},
                   {"place", item.place},
                   {"shows", item.shows},
                   {"needs", NeedsText(item.needs)}});
  }
  return {{"items", std::move(all)}};
}

absl::StatusOr<PaperItem> FindItem(const std::string& name) {
  std::vector<std::string> known = {kList};
  for (PaperItem& item : PaperItems()) {
    if (item.name == name) return std::move(item);
    known.push_back(item.name);
  }
  const std::string closest = Closest(name, known);
  return BadUsage(absl::StrCat(
      "unknown item '", name.substr(0, 64), "'",
      closest.empty() ? "; see neap paper list" : absl::StrCat("; did you mean ", closest, "?")));
}

absl::Status CheckNeeds(const PaperItem& item, const PaperRun& run) {
  if (item.needs == PaperNeeds::kDevice && run.device.empty()) {
    return BadUsage(
        absl::StrCat(item.name, " is measured: --device names the device, such as cuda:0"));
  }
  if (item.needs == PaperNeeds::kTimes && run.device.empty() && run.database.empty()) {
    return BadUsage(absl::StrCat(item.name,
                                 " needs times of convolutions: --device names a device to measure "
                                 "them on, such as cuda:0, or --database a file that has them"));
  }
  return absl::OkStatus();
}

// Items that measure begin a new file of times if there is none.
absl::Status MakeDatabase(const PaperRun& run) {
  if (run.database.empty() || !IsHere(run.device)) return absl::OkStatus();
  return ProfileDatabase::Open(run.database, {}).status();
}

// The files of --out: a picture, or all of an item's files in a folder.
struct OutFiles {
  std::string text, json, svg;  // empty: not written
};

OutFiles FilesOf(const PaperCommand& command) {
  if (command.out.empty()) return {};
  if (command.out.ends_with(".svg")) return {.svg = command.out};
  const std::string base = absl::StrCat(command.out, "/", command.name);
  return {.text = base + ".txt", .json = base + ".json", .svg = base + ".svg"};
}

absl::Status CheckOut(const PaperCommand& command) {
  if (command.out.empty()) return absl::OkStatus();
  std::error_code failed;
  const bool is_picture = command.out.ends_with(".svg");
  if (!is_picture && !std::filesystem::is_directory(command.out, failed))
    return BadUsage(absl::StrCat("--out ", command.out, ": neither a folder nor a name in .svg"));
  const OutFiles files = FilesOf(command);
  std::vector<NamedFile> named;
  for (const std::string& path : {files.text, files.json, files.svg}) {
    if (!path.empty()) named.push_back({"--out", path});
  }
  return CheckOutputs(named, {DatabaseFile(command.run.database)});
}

absl::Status WriteFiles(const PaperCommand& command, const std::string& heading,
                        const PaperReport& report, const Json& json) {
  const OutFiles files = FilesOf(command);
  if (!files.text.empty()) RETURN_IF_ERROR(WriteTextFile(files.text, ToText(heading, report)));
  if (!files.json.empty()) RETURN_IF_ERROR(WriteTextFile(files.json, json.dump() + "\n"));
  if (files.svg.empty() || report.charts.empty()) return absl::OkStatus();
  return WriteTextFile(files.svg, ChartsSvg(heading, report.charts));
}

void AddFlags(PaperCommand& command, FlagSet& flags) {
  flags.Positional("NAME", "list, or an item that it lists", &command.name);
  flags.Add("device", "DEVICE",
            "cpu, cuda:N or, for what is planned, a described card such as h200 (what is planned: "
            "the paper's GPU; what is measured needs one)",
            Text(&command.run.device));
  flags.Add("database", "FILE",
            "times of kernels (profile.db in ~/.cache/neap, where --device is given)",
            Text(&command.run.database));
  flags.Add("steps", "N", "training steps of each measured speed",
            Integer(1, kMaxSteps, &command.run.steps));
  flags.Add("small", "fewer networks and points, and smaller ones: seconds, for tests",
            &command.run.small);
  flags.Add("out", "FILE",
            "write the picture to FILE.svg, or text, JSON and picture to the folder of this name",
            Text(&command.out));
  flags.Add("json", "print one JSON object", &command.json);
}

absl::Status Show(const PaperCommand& command) {
  ASSIGN_OR_RETURN(const PaperItem item, FindItem(command.name));
  RETURN_IF_ERROR(CheckNeeds(item, command.run));
  RETURN_IF_ERROR(CheckOut(command));
  RETURN_IF_ERROR(MakeDatabase(command.run));
  ASSIGN_OR_RETURN(const PaperReport report, item.make(command.run));
  Json json = {{"item", item.name},
               {"paper", item.paper},
               {"place", item.place},
               {"shows", item.shows},
               {"small", command.run.small}};
  json.update(ToJson(report));
  RETURN_IF_ERROR(WriteFiles(command, item.Heading(), report, json));
  command.json ? PrintJson(json) : Print(ToText(item.Heading(), report));
  return absl::OkStatus();
}

}  // namespace

std::string PaperItem::Heading() const {
  return absl::StrCat(name, ": ", paper, ", ", place, ": ", shows);
}

std::vector<PaperItem> PaperItems() {
  std::vector<PaperItem> all;
  for (std::vector<PaperItem>& of_paper :
       std::vector{SuperNeuronsItems(), MicroBatchItems(), ModnnItems(), CudnnItems()})
    std::move(of_paper.begin(), of_paper.end(), std::back_inserter(all));
  return all;
}

absl::StatusOr<int> RunPaper(const std::vector<std::string>& args) {
  PaperCommand command;
  FlagSet flags("neap paper NAME [flags]",
                "Shows a table or figure of SuperNeurons, u-cuDNN, moDNN or cuDNN beside what neap "
                "plans or\nmeasures. neap paper list names them, and says what each needs.");
  AddFlags(command, flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  if (command.name != kList) {
    WatchForInterrupt();
    const absl::Status shown = Show(command);
    if (absl::IsCancelled(shown)) return InterruptedExitCode();
    RETURN_IF_ERROR(shown);
    return 0;
  }
  const std::vector<PaperItem> items = PaperItems();
  command.json ? PrintJson(ListJson(items)) : Print(ListText(items));
  return 0;
}

}  // namespace neap::apps
