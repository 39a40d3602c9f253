#include "apps/profile/profiled_net.h"

#include <algorithm>

#include "neap/core/base/status_macros.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/program/passes.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/profile/profile_steps.h"

namespace neap::apps {
namespace {

constexpr double kMakingSeconds = 20e-3;      // of an engine, with its plan
constexpr double kMinSampleSeconds = 0.4e-3;  // layers/profile/kernel_timer.h
constexpr int64_t kWarmUpSamples = 3;

// Adding gradients is the same arithmetic as writing them.
std::string OperationOf(const StepSignature& kernel) {
  return SignatureText(AddsToGradients(kernel) ? WritingSignature(kernel) : kernel);
}

}  // namespace

absl::StatusOr<std::vector<Program>> ProgramsOf(const ProfiledNet& net,
                                                const DeviceDescription& device) {
  ProgramOptions training = {.optimizer = net.optimizer,
                             .sub_batches = net.sub_batches,
                             .batch_norm_in_parts = net.batch_norm_in_parts};
  ProgramOptions training_from_host = training;
  training_from_host.offload_params = true;
  ProgramOptions evaluation = training;
  evaluation.mode = Mode::kInference;
  std::vector<Program> programs;
  for (const ProgramOptions& options : {training, training_from_host, evaluation}) {
    ASSIGN_OR_RETURN(Program program, Lower(net.graph, options, device));
    programs.push_back(std::move(program));
  }
  return programs;
}

std::vector<StepSignature> KernelsOfAll(const std::vector<Program>& programs) {
  std::vector<StepSignature> kernels;
  for (const Program& program : programs) {
    const std::vector<StepSignature> more = KernelsOf(program);
    kernels.insert(kernels.end(), more.begin(), more.end());
  }
  return kernels;
}

MeasuringTime::MeasuringTime(const std::vector<Program>& programs, const ProfileOptions& options,
                             Device& device, ProfileDatabase& database)
    : options_(options), device_(device), database_(database) {
  for (const Program& program : programs) {
    for (const Step& step : program.steps) {
      for (const bool rerun : {false, true}) {
        const StepSignature signature = program.Signature(step, rerun);
        flops_per_image_[SignatureText(signature)] =
            step.flops / static_cast<double>(BatchOf(signature));
      }
    }
  }
}

double MeasuringTime::Flops(const StepSignature& kernel) const {
  const auto found = flops_per_image_.find(OperationOf(kernel));
  if (found == flops_per_image_.end()) return 0;  // an addition of gradients, whose bytes count
  return found->second * static_cast<double>(BatchOf(kernel));
}

int64_t MeasuringTime::Engines(const StepSignature& kernel) {
  const auto [found, is_new] = engines_.try_emplace(OperationOf(kernel), 1);
  if (!is_new) return found->second;
  const absl::StatusOr<std::vector<Engine>> engines = device_.backend().Engines(kernel);
  if (!engines.ok()) return found->second;  // the profile will have the error
  found->second = options_.engines.has_value()
                      ? std::ssize(FirstEngines(*engines, *options_.engines))
                      : std::ssize(*engines);
  return found->second;
}

int64_t MeasuringTime::Known(const StepSignature& kernel) {
  const absl::StatusOr<std::vector<Measurement>> rows =
      database_.Measurements(SignatureText(kernel), BatchOf(kernel));
  if (!rows.ok()) return 0;
  return std::count_if(rows->begin(), rows->end(), [this](const Measurement& row) {
    return row.failed() ? !options_.retry_failed : !options_.again;
  });
}

double MeasuringTime::Of(const StepSignature& kernel) {
  const auto missing = static_cast<double>(std::max<int64_t>(Engines(kernel) - Known(kernel), 0));
  const auto samples = static_cast<double>(options_.samples + kWarmUpSamples);
  const double run_seconds = PredictSeconds(kernel, Flops(kernel), device_.description());
  return missing * (kMakingSeconds + samples * std::max(kMinSampleSeconds, run_seconds));
}

}  // namespace neap::apps
