#include "apps/paper/paper_gpus.h"

#include <memory>
#include <utility>

#include "neap/core/base/units.h"
#include "neap/layers/catalog/default_catalog.h"

namespace neap::apps {
namespace {

constexpr double kCopyBandwidth = 8e9;  // SuperNeurons, 3.3.2

DeviceDescription Kepler(const char* name, int64_t memory_bytes, double flops, double bandwidth) {
  return {.name = name,
          .kind = "cuda",
          .memory_bytes = memory_bytes,
          .host_memory_bytes = 256 * kGiB,
          .fp32_flops = flops,
          .tf32_flops = flops,
          .half_flops = flops,
          .memory_bandwidth = bandwidth,
          .copy_bandwidth = kCopyBandwidth,
          .has_own_memory = true};
}

}  // namespace

DeviceDescription TeslaK40c() { return Kepler("Tesla K40c", 12 * kGiB, 1.52e12, 288e9); }
DeviceDescription TeslaGk210() {
  return Kepler("Tesla K80 (GK210)", 12 * kGiB, 8.73e12 / 2, 240e9);
}
DeviceDescription TeslaK20Xm() { return Kepler("Tesla K20Xm", 6 * kGiB, 3.95e12, 250e9); }
DeviceDescription Gtx750Ti() { return Kepler("GTX 750 Ti", 2 * kGiB, 1.31e12, 86.4e9); }

PlanTarget PaperTarget(DeviceDescription description) {
  PlanTarget target;
  target.name = description.name;
  target.description = std::move(description);
  target.catalog = std::make_unique<DefaultCatalog>();
  target.unlisted = absl::UnavailableError("neap does not run on the papers' GPUs");
  return target;
}

}  // namespace neap::apps
