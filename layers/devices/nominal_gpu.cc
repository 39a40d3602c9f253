#include "neap/layers/devices/nominal_gpu.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "neap/core/base/units.h"
#include "neap/layers/fusion/rules.h"

namespace neap {
namespace {

// Operations of a multiprocessor per clock, dense; a multiply-add counts as two.
struct Rates {
  int64_t compute_capability;
  double fp32, tf32, half;
};

// By ascending compute capability. NVIDIA's white papers of the architectures (Kepler GK110, Pascal
// P100, Volta V100, Turing, Ampere A100 and GA102, Ada, Hopper H100, Blackwell RTX), and for 8.7
// and 10.0 the published rates of Jetson AGX Orin and B200.
constexpr std::array<Rates, 11> kRates = {{{35, 384, 384, 384},
                                           {60, 128, 128, 128},
                                           {70, 128, 128, 1024},
                                           {75, 128, 128, 1024},
                                           {80, 128, 1024, 2048},
                                           {86, 256, 512, 1024},
                                           {87, 256, 1024, 2048},
                                           {89, 256, 512, 1024},
                                           {90, 256, 2048, 4096},
                                           {100, 256, 4096, 8192},
                                           {120, 256, 512, 1024}}};
constexpr int64_t kAmpere = 80, kHopper = 90;

Rates RatesOf(int64_t compute_capability, bool is_geforce) {
  const auto after = std::upper_bound(
      kRates.begin(), kRates.end(), compute_capability,
      [](int64_t capability, const Rates& rates) { return capability < rates.compute_capability; });
  Rates rates = after == kRates.begin() ? kRates.front() : *(after - 1);
  for (double* const rate : {&rates.tf32, &rates.half})
    if (is_geforce) *rate = std::max(*rate / 2, rates.fp32);
  return rates;
}

// Measured (docs/results.md): with folded batch norms ResNet-50 is 11% faster in bf16 on an H100,
// and as fast in tf32 on an H200, in two thirds of the memory. fp16 has the same kernels as bf16;
// it and later GPUs were not measured.
std::vector<DType> FoldingTypes(int64_t compute_capability) {
  if (compute_capability < kHopper) return {};
  return {DType::kFp16, DType::kBf16, DType::kTf32};
}

}  // namespace

DeviceDescription NominalGpu(std::string name, const GpuProperties& gpu) {
  const Rates rates = RatesOf(gpu.compute_capability, absl::StrContains(name, "GeForce"));
  const double clocks = 1e3 * static_cast<double>(gpu.clock_khz * gpu.multiprocessors);
  DeviceDescription description = {
      .name = std::move(name),
      .kind = "cuda",
      .fp32_flops = clocks * rates.fp32,
      .tf32_flops = clocks * rates.tf32,
      .half_flops = clocks * rates.half,
      .memory_bandwidth =
          2 * 1e3 * static_cast<double>(gpu.memory_clock_khz * gpu.memory_bus_bits) / 8,
      // Measured on an H200, in a third of the memory of RegNetY-3.2GF, ResNeXt-101 and Inception
      // v4 (docs/results/first-run.md): copies of a few bytes take 4 us to the host and 5 to 9 us
      // from it. Kernels of 60 us and more take no longer beside copies to the host in two of them,
      // 6% in the third, and 4 to 7% beside copies from it, which write to the memory that they
      // read.
      .copy_latency_seconds = 5e-6,
      .slowdown_by_copies_out = 0.02,
      .slowdown_by_copies_back = 0.06,
      // Measured: VGG-16 and ResNet-50 in bf16 on two H200.
      .slowdown_by_sums = 0.25,
      .collective_interference_seconds = 90e-6,
      .folding_types = FoldingTypes(gpu.compute_capability),
      .rules = GpuRules(),
      .page_bytes = 2 * kMiB,
      .has_own_memory = true,
      .gpu = gpu};
  const bool has_half_alone = gpu.compute_capability < kAmpere && rates.half > rates.fp32;
  if (has_half_alone) description.bf16_flops = description.fp32_flops;
  return description;
}

}  // namespace neap
