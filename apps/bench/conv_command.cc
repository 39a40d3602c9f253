// neap bench conv: convolutions undivided and in micro-batches, under workspace limits.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/bench/bench.h"
#include "apps/bench/conv_chart.h"
#include "apps/bench/conv_comparison.h"
#include "apps/bench/conv_report.h"
#include "apps/bench/conv_set.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/measuring_flags.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/cli/progress.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/program.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/layers/profile/profiler.h"

namespace neap::apps {
namespace {

constexpr char kDeepBench[] = "deepbench";
constexpr int64_t kMaxBatchFactor = 1 << 10;
constexpr int64_t kDefaultBatch = 256;

struct ConvBenchCommand {
  NetFlags net = {.name = "alexnet", .options = {}};
  int64_t batch_factor = 1;
  ConvBenchOptions bench = {.limits_bytes = {8 * kMiB, 64 * kMiB, 512 * kMiB}};
  MeasuringFlags measuring;
  std::string csv_path;
  std::string chart_path;
  bool plan_only = false;
  bool json = false;
};

void AddFlags(ConvBenchCommand& command, FlagSet& flags) {
  flags.Add("set", "SET",
            "a network (neap nets lists them) whose convolutions are timed, or deepbench",
            Text(&command.net.name));
  flags.Add("batch", "N", "images in a batch (256; for deepbench each shape's own)",
            Integer(1, kMaxNetNumber, &command.net.options.batch));
  flags.Add("batch-factor", "N", "for deepbench: multiply each shape's own batch by N",
            Integer(1, kMaxBatchFactor, &command.batch_factor));
  command.net.AddFormatTo(flags);
  command.measuring.AddTo(flags,
                          "with --plan-only any device in the database (the last one measured)");
  flags.Add("limits", "BYTES,...", "workspace limits of each kernel",
            BytesList(kMaxLimits, &command.bench.limits_bytes));
  flags.Add("total", "BYTES", "workspace to divide among all kernels (8MiB times their number)",
            ReadBytes(&command.bench.total_bytes));
  flags.Add("csv", "FILE", "write a line for every kernel and limit", Text(&command.csv_path));
  flags.Add("chart", "FILE", "draw the speedups (SVG)", Text(&command.chart_path));
  flags.Add("plan-only", "predict from the database's times; measure and execute nothing",
            &command.plan_only);
  flags.Add("json", "print one JSON object", &command.json);
}

absl::StatusOr<std::vector<ConvKernel>> KernelsOf(ConvBenchCommand& command) {
  nets::NetOptions& options = command.net.options;
  if (command.net.name == kDeepBench) {
    ASSIGN_OR_RETURN(options.dtype, ParseDType(command.net.dtype));
    ASSIGN_OR_RETURN(options.layout, ParseLayout(command.net.layout));
    return DeepBenchConvolutions(
        {options.batch, command.batch_factor, options.dtype, options.layout});
  }
  if (command.batch_factor != 1) return BadUsage("--batch-factor needs --set deepbench");
  options.batch = options.batch.value_or(kDefaultBatch);
  ASSIGN_OR_RETURN(const Graph graph, command.net.Build());
  // Not Lower(): the set holds the convolutions as written (core/program/passes.h).
  ASSIGN_OR_RETURN(const Program program, BuildProgram(graph, {.mode = Mode::kTraining}));
  std::vector<ConvKernel> kernels = ConvolutionsOf(program);
  if (kernels.empty()) return BadUsage(absl::StrCat(command.net.name, " has no convolution"));
  return kernels;
}

ConvBenchSubject SubjectOf(const ConvBenchCommand& command, const ProfiledDevice& device) {
  const std::optional<int64_t>& batch = command.net.options.batch;
  std::string set = command.net.name;
  if (batch.has_value()) {
    absl::StrAppend(&set, ", batch ", *batch);
  } else if (command.batch_factor > 1) {
    absl::StrAppend(&set, ", batches times ", command.batch_factor);
  }
  return {.set = std::move(set),
          .format = absl::StrCat(
              command.net.dtype, " ", command.net.layout,
              command.measuring.engines.half_accumulation ? " with half accumulation" : ""),
          .divisions = std::string(Name(command.measuring.options.divisions)),
          .device = device.name,
          .versions = device.versions,
          .executed = !command.plan_only};
}

absl::StatusOr<ConvBenchReport> Measure(ConvBenchCommand& command) {
  ASSIGN_OR_RETURN(const std::vector<ConvKernel> kernels, KernelsOf(command));
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                   OpenDevice(command.measuring.device, {.engines = command.measuring.engines}));
  ASSIGN_OR_RETURN(ProfileDatabase database, OpenProfile(command.measuring.database,
                                                         device->description(), device->backend()));
  const NoticePrinter notices(database);
  std::vector<StepSignature> signatures;
  for (const ConvKernel& kernel : kernels) signatures.push_back(kernel.signature);
  ProfileOptions options = command.measuring.options;
  options.workspace_limit_bytes = command.bench.MeasuredWorkspaceBytes(kernels);
  ASSIGN_OR_RETURN(Profiler profiler, Profiler::Create(signatures, options, *device, database));
  RETURN_IF_ERROR(MeasureAll(profiler, command.net.name));
  command.bench.divisions = options.divisions;
  ConvBenchReport report = {.subject = SubjectOf(command, database.device()),
                            .result = {.kernels_asked = std::ssize(kernels)},
                            .steps = profiler.total(),
                            .steps_done = profiler.done()};
  if (profiler.done() < profiler.total()) return report;
  ASSIGN_OR_RETURN(ProfileDatabase measured,
                   ProfileDatabase::OpenToRead(database.path(), database.device()));
  ProgressLine line("execute", "kernels");
  const ProfiledTimings timings(std::move(measured), SayUnread(line));
  ConvBench bench(command.bench, timings, device->backend(), line,
                  [&](const StepSignature& signature, const Configuration& configuration) {
                    return profiler.MedianSeconds(signature, configuration);
                  });
  ASSIGN_OR_RETURN(report.result, bench.Run(kernels));
  return report;
}

// Checks each kernel at its whole batch, because measurements of a part may exist without it, from
// a smaller batch.
absl::Status CheckMeasured(const std::vector<ConvKernel>& kernels, const MeasuredDevice& measured) {
  const auto is_missing = [&](const ConvKernel& kernel) {
    const std::vector<TimedEngine> timed = measured.timings->Of(kernel.signature);
    return std::none_of(timed.begin(), timed.end(), [&](const TimedEngine& engine) {
      return engine.batch == BatchOf(kernel.signature);
    });
  };
  const auto missing = std::find_if(kernels.begin(), kernels.end(), is_missing);
  if (missing == kernels.end()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      std::count_if(kernels.begin(), kernels.end(), is_missing), " of ", kernels.size(),
      " kernels were not measured at their batch on ", measured.device.name, " (",
      measured.device.versions, "), for example ", missing->name, " ",
      std::string(Name(missing->signature.phase)), ", ", missing->Shapes(),
      "; the same command on that device, without --plan-only, measures them"));
}

// Uses only a database.
absl::StatusOr<ConvBenchReport> Predict(ConvBenchCommand& command) {
  ASSIGN_OR_RETURN(const std::vector<ConvKernel> kernels, KernelsOf(command));
  ProgressLine line("choose", "kernels");
  ASSIGN_OR_RETURN(const MeasuredDevice measured,
                   OpenMeasuredDevice(command.measuring.database, command.measuring.device,
                                      command.measuring.engines, SayUnread(line)));
  RETURN_IF_ERROR(CheckMeasured(kernels, measured));
  command.bench.divisions = command.measuring.options.divisions;
  ConvBench bench(command.bench, *measured.timings, *measured.catalog, line,
                  /*execute=*/nullptr);
  ASSIGN_OR_RETURN(ConvBenchResult result, bench.Run(kernels));
  return ConvBenchReport{SubjectOf(command, measured.device), std::move(result)};
}

}  // namespace

absl::StatusOr<int> RunConvBench(const std::vector<std::string>& args) {
  ConvBenchCommand command;
  FlagSet flags("neap bench conv [flags]",
                "Times convolutions on a device, undivided and divided into micro-batches: the "
                "fastest that fits\neach limit, as executed, and one workspace divided among all "
                "kernels. Engines that the\ndatabase lacks are measured first. After "
                "Ctrl-C it reports the kernels that are done.");
  AddFlags(command, flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) {
    Print(flags.HelpText());
    return 0;
  }
  RETURN_IF_ERROR(CheckOutputs(
      {{"--csv", command.csv_path}, {"--chart", command.chart_path}},
      {DatabaseFile(command.measuring.database), DeviceFile(command.measuring.device)}));
  RETURN_IF_ERROR(command.net.CheckEngines(command.measuring.engines));
  ASSIGN_OR_RETURN(const ConvBenchReport report,
                   command.plan_only ? Predict(command) : Measure(command));
  // Checked first, so that minutes of work are not lost to a file that cannot be written.
  command.json ? PrintJson(ToJson(report)) : Print(ToText(report));
  if (!command.csv_path.empty() && !report.result.kernels.empty())
    RETURN_IF_ERROR(WriteTextFile(command.csv_path, ToCsv(report.result)));
  if (!report.result.is_whole()) return InterruptedExitCode();
  if (!command.chart_path.empty())
    RETURN_IF_ERROR(WriteTextFile(command.chart_path, SpeedupChart(report)));
  return 0;
}

}  // namespace neap::apps
