#include "neap/layers/cpu/cpu_description.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "neap/core/base/parallel.h"
#include "neap/core/device/host_memory.h"
#include "neap/layers/cpu/onednn.h"
#include "neap/layers/fusion/rules.h"

namespace neap {
namespace {

constexpr double kNominalHertz = 2.5e9;
constexpr double kNominalMemoryBandwidth = 20e9;
constexpr double kNominalCopyBandwidth = 8e9;
constexpr double kNominalPeerBandwidth = 16e9;

std::string Contents(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

DeviceDescription DescribeCpu() {
  const double flops = static_cast<double>(AvailableCores()) * kNominalHertz * FlopsPerCycle();
  return {.name = CpuModelName(Contents("/proc/cpuinfo")),
          .kind = "cpu",
          .memory_bytes = HostMemoryBytes(),
          .host_memory_bytes = HostMemoryBytes(),
          .fp32_flops = flops,
          .tf32_flops = flops,
          .half_flops = flops,
          .memory_bandwidth = kNominalMemoryBandwidth,
          .copy_bandwidth = kNominalCopyBandwidth,
          .peer_bandwidth = kNominalPeerBandwidth,
          .rules = CpuRules()};
}

double FlopsPerCycle() {
  if (cpu::HasInstructions(dnnl::cpu_isa::avx512_core)) return 64;
  return cpu::HasInstructions(dnnl::cpu_isa::avx2) ? 32 : 16;
}

std::string CpuModelName(std::string_view cpuinfo) {
  const absl::string_view text(cpuinfo.data(), cpuinfo.size());
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view value = absl::StripAsciiWhitespace(field.second);
    if (absl::StripAsciiWhitespace(field.first) == "model name" && !value.empty()) {
      return std::string(value);
    }
  }
  return "CPU";
}

absl::StatusOr<int64_t> ResidentBytes() {
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  std::ifstream statm("/proc/self/statm");
  if (!(statm >> total_pages >> resident_pages)) {
    return absl::InternalError("cannot read /proc/self/statm");
  }
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace neap
