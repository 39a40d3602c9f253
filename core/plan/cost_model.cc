#include "neap/core/plan/cost_model.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace neap {
namespace {

// The coefficients of a kind, a group or a family. The logarithm of the ratio to the bound is
// limited to what was measured, because the extents of other networks may lie outside those of the
// fit.
struct CoefficientRow {
  std::string_view name;
  double least, most;
  double coefficients[CostFeatures::kCount];
};

// Rows in order of their names, and on which device they were measured.
struct CoefficientTable {
  std::string_view device;
  absl::Span<const CoefficientRow> rows;
};

constexpr CoefficientRow kCudaRows[] = {
#include "neap/core/plan/cost_coefficients.inc"
};

constexpr CoefficientRow kCpuRows[] = {
#include "neap/core/plan/cpu_cost_coefficients.inc"
};

// No rows for a device whose times are those of the roofline: of a GPU that is known only by its
// rates, these are taken to be what kernels reach.
CoefficientTable TableOf(const DeviceDescription& device) {
  if (device.kind == "cpu") return {"AMD EPYC", kCpuRows};
  if (device.kind == "cuda" && device.gpu.has_value()) return {"NVIDIA H200", kCudaRows};
  return {};
}

// Null if there is none of these names.
const CoefficientRow* FindRow(absl::Span<const CoefficientRow> rows, const CostFeatures& features) {
  for (const std::string* name : {&features.kind, &features.group, &features.family}) {
    const auto found = std::lower_bound(
        rows.begin(), rows.end(), *name,
        [](const CoefficientRow& row, std::string_view wanted) { return row.name < wanted; });
    if (found != rows.end() && found->name == *name) return &*found;
  }
  return nullptr;
}

}  // namespace

double PredictSeconds(const StepSignature& signature, double flops,
                      const DeviceDescription& device) {
  if (!HasKernel(signature.phase)) return 0;
  const CostFeatures features = FeaturesOf(signature, flops, device);
  const CoefficientTable table = TableOf(device);
  const CoefficientRow* const row = FindRow(table.rows, features);
  if (row == nullptr) return features.bound_seconds;
  double logarithm = 0;
  for (int i = 0; i < CostFeatures::kCount; ++i)
    logarithm += row->coefficients[i] * features.values[static_cast<size_t>(i)];
  return std::max(features.bound_seconds * std::exp(std::clamp(logarithm, row->least, row->most)),
                  features.least_seconds);
}

double PredictSeconds(const Program& program, const Step& step, const DeviceDescription& device,
                      bool rerun) {
  double seconds = PredictSeconds(program.Signature(step, rerun), step.flops, device);
  if (rerun) return seconds;
  for (const TensorSpec& sum : program.Additions(step))
    seconds += PredictAdditionSeconds(sum, device);
  return seconds;
}

double PredictAdditionSeconds(const TensorSpec& spec, const DeviceDescription& device) {
  return PredictSeconds(AdditionSignature(spec), /*flops=*/0, device);
}

std::string CostModelOf(const DeviceDescription& device) {
  const std::string_view fitted_to = TableOf(device).device;
  return fitted_to.empty() ? "roofline" : absl::StrCat("fitted to ", std::string(fitted_to));
}

TimelineCosts TransferCosts(const DeviceDescription& device) {
  return {.d2h_bytes_per_second = device.copy_bandwidth,
          .h2d_bytes_per_second = device.copy_bandwidth,
          .peer_bytes_per_second = device.peer_bandwidth,
          .device_bytes_per_second = device.memory_bandwidth,
          .transfer_latency_seconds = device.copy_latency_seconds,
          .slowdown_by_offloads = device.slowdown_by_copies_out,
          .slowdown_by_prefetches = device.slowdown_by_copies_back,
          .collective_bytes_per_second = device.collective_bandwidth,
          .collective_latency_seconds = device.collective_latency_seconds,
          .slowdown_by_sums = device.slowdown_by_sums,
          .collective_interference_seconds = device.collective_interference_seconds};
}

}  // namespace neap
