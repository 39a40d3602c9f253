#include "apps/cli/kernel_flags.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/outcome.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/profile/installed_timings.h"

namespace neap::apps {
namespace {

constexpr std::string_view kNone = "none";

// A database that the user names must exist; the default one need not.
bool IsWanted(const std::string& given) {
  if (given == kNone) return false;
  if (!given.empty()) return true;
  const absl::StatusOr<std::string> path = DefaultProfilePath();
  std::error_code ignored;
  return path.ok() && std::filesystem::exists(*path, ignored);
}

WorkspaceRule RuleOf(const std::string& name) {
  if (name == "left-over") return WorkspaceRule::kLeftOver;
  return name == "gain" ? WorkspaceRule::kGain : WorkspaceRule::kBest;
}

std::string UnreadText(const absl::Status& error) {
  return absl::StrCat("neap: continuing without some of the measured times: ", error.message());
}

}  // namespace

absl::StatusOr<std::string> ProfilePath(const std::string& given) {
  return given.empty() ? DefaultProfilePath() : absl::StatusOr<std::string>(given);
}

NamedFile DatabaseFile(const std::string& given) {
  const absl::StatusOr<std::string> path = ProfilePath(given);
  return {"--database", path.ok() && given != kNone ? *path : ""};
}

absl::StatusOr<ProfileDatabase> OpenProfile(const std::string& path,
                                            const DeviceDescription& device,
                                            const EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(const std::string file, ProfilePath(path));
  return ProfileDatabase::Open(file, {.name = device.name, .versions = catalog.Versions()});
}

void NoticePrinter::Print() {
  const std::vector<std::string>& notices = database_.notices();
  while (printed_ < notices.size()) absl::FPrintF(stderr, "neap: %s\n", notices[printed_++]);
}

void PrintUnread(const absl::Status& error) { absl::FPrintF(stderr, "%s\n", UnreadText(error)); }

ProfiledTimings::OnError SayUnread(ProgressLine& line) {
  return [&line](const absl::Status& error) { line.Say(UnreadText(error)); };
}

void AddEnginesTo(FlagSet& flags, EngineOptions* engines) {
  flags.Add("half-accumulation",
            "for fp16 on a GPU, also convolutions whose sums are fp16: less exact, maybe faster",
            &engines->half_accumulation);
}

FlagValue ReadDivisions(DivisionPolicy* policy) {
  constexpr DivisionPolicy kKnown[] = {DivisionPolicy::kUndivided, DivisionPolicy::kPowerOfTwo,
                                       DivisionPolicy::kAll};
  return OneOf<DivisionPolicy>(kKnown, ParseDivisionPolicy, policy);
}

FlagValue ReadWorkspaceRule(std::string* rule) {
  return OneOf({"left-over", "gain", "best"}, rule);
}

void KernelFlags::AddDatabaseTo(FlagSet& flags) {
  flags.Add("database", "FILE",
            "choose kernels by the times in this database (profile.db in ~/.cache/neap, if it "
            "exists) and those that come with neap; none: by the cost model alone",
            Text(&database));
  flags.Add("no-installed-times", "without the times that come with neap", &no_installed_times);
  flags.Add("divisions", "POLICY", "parts of a batch in which convolutions may run",
            ReadDivisions(&divisions));
  flags.Add("nondeterministic", "also use engines whose bits differ from run to run, if measured",
            &nondeterministic);
  AddEnginesTo(flags, &engines);
}

void KernelFlags::AddTo(FlagSet& flags) {
  AddDatabaseTo(flags);
  flags.Add("workspace-limit", "BYTES",
            "workspace of each convolution (whatever is left in the arena at its step)",
            ReadBytes(&workspace_limit_bytes));
  flags.Add(
      "workspace-rule", "RULE",
      "if memory is short: shrink workspaces, evict tensors if that saves time, or the faster",
      ReadWorkspaceRule(&workspace_rule));
}

bool KernelFlags::reads_database() const { return database != kNone; }
bool KernelFlags::reads_installed_times() const { return reads_database() && !no_installed_times; }

std::string KernelFlags::ProfileArguments() const {
  std::string text;
  if (!database.empty()) absl::StrAppend(&text, " --database ", ShellWord(database));
  if (divisions != KernelFlags().divisions)
    absl::StrAppend(&text, " --divisions ", std::string(Name(divisions)));
  if (engines.half_accumulation) absl::StrAppend(&text, " --half-accumulation");
  return text;
}

KernelOptions KernelFlags::WithoutTimes() const {
  return {.divisions = divisions,
          .deterministic = !nondeterministic,
          .workspace_limit_bytes = workspace_limit_bytes.value_or(kUnlimited),
          .workspace_rule = RuleOf(workspace_rule)};
}

absl::StatusOr<std::optional<ProfileDatabase>> KernelFlags::OpenDatabase(
    ProfiledDevice device) const {
  if (!IsWanted(database)) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string path, ProfilePath(database));
  absl::StatusOr<ProfileDatabase> opened = ProfileDatabase::OpenToRead(path, std::move(device));
  if (opened.ok()) return *std::move(opened);
  if (!database.empty()) return opened.status();
  absl::FPrintF(stderr, "neap: planning without measured times: %s\n",
                std::string(opened.status().message()));
  return std::nullopt;
}

absl::StatusOr<KernelOptions> KernelFlags::Options(const DeviceDescription& device,
                                                   const EngineCatalog& catalog,
                                                   ProfiledTimings::OnError on_unread) const {
  KernelOptions options = WithoutTimes();
  ASSIGN_OR_RETURN(std::optional<ProfileDatabase> opened,
                   OpenDatabase({.name = device.name, .versions = catalog.Versions()}));
  if (opened.has_value())
    options.timings = std::make_shared<ProfiledTimings>(*std::move(opened), std::move(on_unread));
  if (reads_installed_times()) {
    options.timings =
        WithInstalledTimings(std::move(options.timings), {device.name, catalog.Versions()});
  }
  return options;
}

}  // namespace neap::apps
