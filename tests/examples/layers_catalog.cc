// The examples in the headers of layers/catalog, compiled and not run.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/activation.h"
#include "neap/layers/catalog/custom_kernel.h"
#include "neap/layers/catalog/engine_cache.h"
#include "neap/layers/catalog/engine_id.h"
#include "neap/layers/catalog/engine_options.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/catalog/measured_catalog.h"
#include "neap/layers/catalog/step_run.h"
#include "neap/layers/catalog/table_backend.h"
#include "neap/layers/conv/micro_batching.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/profile/kept_engine_lists.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"

namespace neap::examples {

// layers/catalog/custom_kernel.h
float QuickGelu(float x);
absl::Status QuickGeluBackward(const CustomRun& step);
absl::Status QuickGeluForward(const CustomRun& step) {
  const float* const x = step.Get<float>(operands::X());
  float* const y = step.Get<float>(operands::Y());
  for (int64_t i = 0; i < step.Elements(operands::Y()); ++i) y[i] = QuickGelu(x[i]);
  return absl::OkStatus();
}

absl::Status OpenWithCustomKernels() {
  ASSIGN_OR_RETURN(
      auto device,
      CpuDevice::Open({.kernels = {{.layer_type = "quick_gelu", .run = QuickGeluForward},
                                   {.layer_type = "quick_gelu",
                                    .phase = Phase::kBackwardData,
                                    .run = QuickGeluBackward}}}));
  return absl::OkStatus();
}

// layers/catalog/engine_cache.h
absl::StatusOr<std::vector<Engine>> ListEngines(const StepSignature& signature);
absl::Status UseEngineCache(const StepSignature& signature) {
  EngineCache cache;
  ASSIGN_OR_RETURN(std::vector<Engine> engines, cache.Get(signature, ListEngines));
  return absl::OkStatus();
}

// layers/catalog/engine_id.h
void MarkAnEngine() {
  Engine engine = {.id = "eng12"};
  MarkHalf(engine);
  engine.id;                                      // "half:eng12"
  EngineFromText(engine.id).accumulates_in_half;  // true
}

// layers/catalog/engine_lists.h
absl::Status KeepEngineLists() {
  const EngineOptions options = {.lists = KeptEngineLists::Default()};  // layers/profile
  ASSIGN_OR_RETURN(std::unique_ptr<EngineCatalog> h200, DescribedCatalog("h200", {}, options));
  return absl::OkStatus();
}

// layers/catalog/kernel_timings.h
void UseKernelTimings(const KernelTimings& timings, const StepSignature& signature) {
  std::vector<TimedEngine> engines = timings.Of(signature);
  FastestDivision(engines, BatchOf(signature), /*granularity=*/1, 64 * kMiB);
}

// layers/catalog/measured_catalog.h
absl::Status MakeMeasuredCatalog(const std::string& path, const std::string& versions) {
  ASSIGN_OR_RETURN(auto database, ProfileDatabase::OpenToRead(path, {"NVIDIA H200", versions}));
  const ProfiledTimings timings(std::move(database));
  ASSIGN_OR_RETURN(std::unique_ptr<EngineCatalog> library, DescribedCatalog("h200"));
  MeasuredCatalog catalog(timings, versions, std::move(library));
  return absl::OkStatus();
}

// layers/catalog/step_run.h
void ReluForward(const StepRun& step) {
  const float* const x = step.Get<float>(operands::X());
  float* const y = step.Get<float>(operands::Y());
  for (int64_t i = 0; i < step.Elements(operands::Y()); ++i) y[i] = x[i] <= 0 ? 0 : x[i];
}

namespace rows {

absl::StatusOr<KernelCandidates> SgdUpdate(const StepSignature& signature);
absl::StatusOr<KernelCandidates> ReluForward(const StepSignature& signature);

// layers/catalog/table_backend.h
absl::Status MakeTableBackend(const std::vector<CustomKernel>& custom_kernels) {
  KernelTable table = {.device = "the CPU",
                       .versions = "oneDNN 2.6.3",
                       .rows = {{kAnyLayer, Phase::kUpdate, SgdUpdate},
                                {kLayer<Relu>, Phase::kForward, ReluForward}}};
  ASSIGN_OR_RETURN(auto backend, TableBackend::Create(std::move(table), custom_kernels));
  return absl::OkStatus();
}

}  // namespace rows

}  // namespace neap::examples
