#include "apps/bench/conv_measure.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/bench/conv_comparison.h"
#include "apps/bench/conv_set.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/outcome.h"
#include "apps/cli/progress.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/program.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/layers/profile/profiler.h"

namespace neap::apps {
namespace {

constexpr char kDeepBench[] = "deepbench";
constexpr char kShapeListEnd[] = ".csv";
constexpr int64_t kDefaultBatch = 256;

absl::StatusOr<std::vector<ConvKernel>> AllKernelsOf(ConvBenchRequest& request) {
  nets::NetOptions& options = request.net.options;
  const bool is_file = request.net.name.ends_with(kShapeListEnd);
  if (is_file || request.net.name == kDeepBench) {
    ASSIGN_OR_RETURN(options.dtype, ParseDType(request.net.dtype));
    ASSIGN_OR_RETURN(options.layout, ParseLayout(request.net.layout));
    const ShapeListOptions list = {options.batch, request.batch_factor, options.dtype,
                                   options.layout};
    if (!is_file) return DeepBenchConvolutions(list);
    return ReadShapeFile(request.net.name, list);
  }
  if (request.batch_factor != 1)
    return BadUsage("--batch-factor needs --set deepbench or a list of shapes");
  options.batch = options.batch.value_or(kDefaultBatch);
  ASSIGN_OR_RETURN(const Graph graph, request.net.Build());
  // Not Lower(): the set holds the convolutions as written (core/program/passes.h).
  ASSIGN_OR_RETURN(const Program program, BuildProgram(graph, {.mode = Mode::kTraining}));
  std::vector<ConvKernel> kernels = ConvolutionsOf(program);
  if (kernels.empty()) return BadUsage(absl::StrCat(request.net.name, " has no convolution"));
  return kernels;
}

absl::StatusOr<std::vector<ConvKernel>> KernelsOf(ConvBenchRequest& request) {
  std::vector<ConvKernel> kernels = request.kernels;
  if (kernels.empty()) {
    ASSIGN_OR_RETURN(kernels, AllKernelsOf(request));
  }
  if (request.forward_only) {
    std::erase_if(kernels, [](const ConvKernel& kernel) {
      return kernel.signature.phase != Phase::kForward;
    });
  }
  return kernels;
}

ConvBenchSubject SubjectOf(const ConvBenchRequest& request, const ProfiledDevice& device) {
  const std::optional<int64_t>& batch = request.net.options.batch;
  std::string set = request.net.name;
  if (batch.has_value()) {
    absl::StrAppend(&set, ", batch ", *batch);
  } else if (request.batch_factor > 1) {
    absl::StrAppend(&set, ", batches times ", request.batch_factor);
  }
  return {.set = std::move(set),
          .format = absl::StrCat(
              request.net.dtype, " ", request.net.layout,
              request.measuring.engines.half_accumulation ? " with half accumulation" : ""),
          .divisions = std::string(Name(request.measuring.options.divisions)),
          .device = device.name,
          .versions = device.versions,
          .executed = !request.plan_only};
}

absl::StatusOr<ConvBenchReport> Measure(ConvBenchRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<ConvKernel> kernels, KernelsOf(request));
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                   OpenDevice(request.measuring.device, {.engines = request.measuring.engines}));
  ASSIGN_OR_RETURN(ProfileDatabase database, OpenProfile(request.measuring.database,
                                                         device->description(), device->backend()));
  const NoticePrinter notices(database);
  std::vector<StepSignature> signatures;
  for (const ConvKernel& kernel : kernels) signatures.push_back(kernel.signature);
  ProfileOptions options = request.measuring.options;
  options.workspace_limit_bytes = request.bench.MeasuredWorkspaceBytes(kernels);
  ASSIGN_OR_RETURN(Profiler profiler, Profiler::Create(signatures, options, *device, database));
  RETURN_IF_ERROR(MeasureAll(profiler, request.net.name));
  request.bench.divisions = options.divisions;
  ConvBenchReport report = {.subject = SubjectOf(request, database.device()),
                            .result = {.kernels_asked = std::ssize(kernels)},
                            .steps = profiler.total(),
                            .steps_done = profiler.done()};
  if (profiler.done() < profiler.total()) return report;
  ASSIGN_OR_RETURN(ProfileDatabase measured,
                   ProfileDatabase::OpenToRead(database.path(), database.device()));
  ProgressLine line("execute", "kernels");
  const ProfiledTimings timings(std::move(measured), SayUnread(line));
  ConvBench bench(request.bench, timings, device->backend(), line,
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
      "; they are measured where that device is (bench conv: without --plan-only)"));
}

// Uses only a database.
absl::StatusOr<ConvBenchReport> Predict(ConvBenchRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<ConvKernel> kernels, KernelsOf(request));
  ProgressLine line("choose", "kernels");
  ASSIGN_OR_RETURN(const MeasuredDevice measured,
                   OpenMeasuredDevice(request.measuring.database, request.measuring.device,
                                      request.measuring.engines, SayUnread(line)));
  RETURN_IF_ERROR(CheckMeasured(kernels, measured));
  request.bench.divisions = request.measuring.options.divisions;
  ConvBench bench(request.bench, *measured.timings, *measured.catalog, line,
                  /*execute=*/nullptr);
  ASSIGN_OR_RETURN(ConvBenchResult result, bench.Run(kernels));
  return ConvBenchReport{SubjectOf(request, measured.device), std::move(result)};
}

}  // namespace

absl::StatusOr<ConvBenchReport> RunConvBench(ConvBenchRequest request) {
  return request.plan_only ? Predict(request) : Measure(request);
}

}  // namespace neap::apps
