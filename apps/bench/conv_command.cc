// neap bench conv: convolutions undivided and in micro-batches, under workspace limits.
#include <string>
#include <vector>

#include "apps/bench/bench.h"
#include "apps/bench/conv_chart.h"
#include "apps/bench/conv_measure.h"
#include "apps/bench/conv_report.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

constexpr int64_t kMaxBatchFactor = 1 << 10;

struct ConvBenchCommand {
  ConvBenchRequest asked;
  std::string csv_path;
  std::string chart_path;
  ConvDetails details;
  bool json = false;
};

void AddFlags(ConvBenchCommand& command, FlagSet& flags) {
  flags.Add("set", "SET",
            "a network (neap nets lists them) whose convolutions are timed, deepbench, or a file "
            "that ends in .csv with shapes, in the columns of bench/deepbench_conv_train.csv",
            Text(&command.asked.net.name));
  flags.Add("batch", "N", "images in a batch (256; for lists of shapes each shape's own)",
            Integer(1, kMaxNetNumber, &command.asked.net.options.batch));
  flags.Add("batch-factor", "N", "for lists of shapes: multiply each shape's own batch by N",
            Integer(1, kMaxBatchFactor, &command.asked.batch_factor));
  command.asked.net.AddFormatTo(flags);
  command.asked.measuring.AddTo(
      flags, "with --plan-only any device in the database (the last one measured)");
  flags.Add("limits", "BYTES,...", "workspace limits of each kernel",
            BytesList(kMaxLimits, &command.asked.bench.limits_bytes));
  flags.Add("total", "BYTES", "workspace to divide among all kernels (8MiB times their number)",
            ReadBytes(&command.asked.bench.total_bytes));
  flags.Add("csv", "FILE", "write a line for every kernel and limit", Text(&command.csv_path));
  flags.Add("chart", "FILE", "draw the speedups (SVG)", Text(&command.chart_path));
  flags.Add("plan-only", "predict from the database's times; measure and execute nothing",
            &command.asked.plan_only);
  flags.Add("fronts",
            "also print each kernel's desirable configurations: the Pareto front of time and "
            "workspace",
            &command.details.fronts);
  flags.Add("segments", "also print each kernel's segment of the divided workspace",
            &command.details.segments);
  flags.Add("json", "print one JSON object", &command.json);
}

}  // namespace

absl::StatusOr<int> RunConvCommand(const std::vector<std::string>& args) {
  ConvBenchCommand command;
  FlagSet flags("neap bench conv [flags]",
                "Times convolutions on a device, undivided and divided into micro-batches: the "
                "fastest that fits\neach limit, as executed, and one workspace divided among all "
                "kernels. Engines that the\ndatabase lacks are measured first. After "
                "Ctrl-C it reports the kernels that are done.");
  AddFlags(command, flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  RETURN_IF_ERROR(CheckOutputs({{"--csv", command.csv_path}, {"--chart", command.chart_path}},
                               {DatabaseFile(command.asked.measuring.database),
                                DeviceFile(command.asked.measuring.device)}));
  RETURN_IF_ERROR(command.asked.net.CheckEngines(command.asked.measuring.engines));
  ASSIGN_OR_RETURN(const ConvBenchReport report, RunConvBench(command.asked));
  // Checked first, so that minutes of work are not lost to a file that cannot be written.
  command.json ? PrintJson(ToJson(report)) : Print(ToText(report, command.details));
  if (!command.csv_path.empty() && !report.result.kernels.empty())
    RETURN_IF_ERROR(WriteTextFile(command.csv_path, ToCsv(report.result)));
  if (!report.result.is_whole()) return InterruptedExitCode();
  if (!command.chart_path.empty())
    RETURN_IF_ERROR(WriteTextFile(command.chart_path, SpeedupChart(report)));
  return 0;
}

}  // namespace neap::apps
