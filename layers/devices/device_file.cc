#include "neap/layers/devices/device_file.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/file.h"
#include "neap/core/base/json_fields.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/fusion/rules.h"

namespace neap {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFile[] = "device";  // errors begin with it
constexpr int64_t kFormat = 1;
constexpr int64_t kMaxFileBytes = kMiB;
constexpr int64_t kMaxNameBytes = 256;
// Beyond what any device does, and small enough that no sum of a plan's times or bytes overflows.
constexpr double kMaxRate = 1e24, kMaxSlowdown = 1000, kMaxSeconds = 3600;
constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();

Json ToJson(const GpuProperties& gpu) {
  return {{"compute_capability",
           absl::StrCat(gpu.compute_capability / 10, ".", gpu.compute_capability % 10)},
          {"multiprocessors", gpu.multiprocessors},
          {"clock_khz", gpu.clock_khz},
          {"memory_clock_khz", gpu.memory_clock_khz},
          {"memory_bus_bits", gpu.memory_bus_bits},
          {"l2_cache_bytes", gpu.l2_cache_bytes},
          {"threads_per_multiprocessor", gpu.threads_per_multiprocessor},
          {"blocks_per_multiprocessor", gpu.blocks_per_multiprocessor},
          {"shared_memory_per_block_bytes", gpu.shared_memory_per_block_bytes},
          {"reserved_shared_memory_per_block_bytes", gpu.reserved_shared_memory_per_block_bytes}};
}

double Between(double least, double most, const char* key, JsonFields& fields) {
  const double value = fields.Number(key);
  if (value < least || value > most)
    fields.Fail(absl::StrFormat("%s is %g, not from %g to %g", key, value, least, most));
  return value;
}

int64_t Between(int64_t least, int64_t most, const char* key, JsonFields& fields) {
  const int64_t value = fields.Integer(key);
  if (value < least || value > most)
    fields.Fail(absl::StrCat(key, " is ", value, ", not from ", least, " to ", most));
  return value;
}

double Rate(const char* key, JsonFields& fields) { return Between(1.0, kMaxRate, key, fields); }
double RateOrNone(const char* key, JsonFields& fields) {
  return Between(0.0, kMaxRate, key, fields);
}
int64_t Count(const char* key, JsonFields& fields) {
  return Between(int64_t{1}, kMaxCount, key, fields);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "8.9" -> 89
int64_t ComputeCapability(JsonFields& fields) {
  const std::string text = fields.Text("compute_capability");
  const size_t dot = text.find('.');
  const bool right =
      (dot == 1 || dot == 2) && text.size() == dot + 2 && text[0] != '0' &&
      std::count_if(text.begin(), text.end(), IsDigit) == static_cast<std::ptrdiff_t>(dot) + 1;
  if (!right) {
    fields.Fail(absl::StrCat("compute_capability is \"", text.substr(0, 16),
                             "\", not a version such as \"8.9\""));
    return 0;
  }
  int64_t capability = 0;
  for (const char c : text) capability = IsDigit(c) ? 10 * capability + (c - '0') : capability;
  return capability;
}

absl::StatusOr<GpuProperties> ReadGpu(const Json& json) {
  JsonFields fields(json, kFile, "gpu");
  const GpuProperties gpu = {
      .compute_capability = ComputeCapability(fields),
      .multiprocessors = Count("multiprocessors", fields),
      .clock_khz = Count("clock_khz", fields),
      .memory_clock_khz = Count("memory_clock_khz", fields),
      .memory_bus_bits = Count("memory_bus_bits", fields),
      .l2_cache_bytes = Count("l2_cache_bytes", fields),
      .threads_per_multiprocessor = Count("threads_per_multiprocessor", fields),
      .blocks_per_multiprocessor = Count("blocks_per_multiprocessor", fields),
      .shared_memory_per_block_bytes = Count("shared_memory_per_block_bytes", fields),
      .reserved_shared_memory_per_block_bytes =
          Between(int64_t{0}, kMaxCount, "reserved_shared_memory_per_block_bytes", fields)};
  RETURN_IF_ERROR(fields.Finish());
  return gpu;
}

std::string ReadName(JsonFields& fields) {
  std::string name = fields.Text("name");
  const bool is_printed =
      std::none_of(name.begin(), name.end(), [](char c) { return c >= 0 && c < ' '; });
  if (name.empty() || name.size() > kMaxNameBytes || !is_printed) {
    fields.Fail(absl::StrCat("name is not a text of 1 to ", kMaxNameBytes,
                             " bytes without control characters"));
  }
  return name;
}

std::string ReadKind(JsonFields& fields) {
  std::string kind = fields.Text("kind");
  if (kind != "cuda" && kind != "cpu")
    fields.Fail(absl::StrCat("kind is \"", kind.substr(0, 64), "\"; there are cuda and cpu"));
  return kind;
}

std::vector<DType> ReadFoldingTypes(JsonFields& fields) {
  std::vector<DType> types;
  for (const Json& json : fields.Array("folding_types")) {
    const absl::StatusOr<DType> type = ParseDType(json.is_string() ? json.get<std::string>() : "");
    const bool is_of_networks = type.ok() && *type != DType::kUInt8 && *type != DType::kInt32;
    if (!is_of_networks) {
      fields.Fail("folding_types holds something other than fp32, tf32, fp16 and bf16");
      return {};
    }
    types.push_back(*type);
  }
  return types;
}

absl::Status CheckFormat(JsonFields& fields) {
  const int64_t format = fields.Integer("neap_device");
  RETURN_IF_ERROR(fields.status());
  if (format == kFormat) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(kFile, ": this file has format ", format,
                                                 "; this version reads format ", kFormat));
}

DeviceDescription ReadDevice(JsonFields& fields) {
  DeviceDescription device = {
      .name = ReadName(fields),
      .kind = ReadKind(fields),
      .memory_bytes = Between(int64_t{1}, kMaxBytes, "memory_bytes", fields),
      .host_memory_bytes = Between(int64_t{0}, kMaxBytes, "host_memory_bytes", fields),
      .fp32_flops = Rate("fp32_flops_per_second", fields),
      .tf32_flops = Rate("tf32_flops_per_second", fields),
      .half_flops = Rate("half_flops_per_second", fields),
      .memory_bandwidth = Rate("memory_bytes_per_second", fields),
      .copy_bandwidth = Rate("copy_bytes_per_second", fields),
      .peer_bandwidth = RateOrNone("peer_bytes_per_second", fields),
      .copy_latency_seconds = Between(0.0, kMaxSeconds, "copy_latency_seconds", fields),
      .slowdown_by_copies_out = Between(0.0, kMaxSlowdown, "slowdown_by_copies_out", fields),
      .slowdown_by_copies_back = Between(0.0, kMaxSlowdown, "slowdown_by_copies_back", fields),
      .collective_bandwidth = RateOrNone("collective_bytes_per_second", fields),
      .collective_latency_seconds = Between(0.0, kMaxSeconds, "collective_latency_seconds", fields),
      .slowdown_by_sums = Between(0.0, kMaxSlowdown, "slowdown_by_sums", fields),
      .collective_interference_seconds =
          Between(0.0, kMaxSeconds, "doubled_by_sums_seconds", fields),
      .folding_types = ReadFoldingTypes(fields),
      .page_bytes = Between(int64_t{1}, kMaxBytes, "page_bytes", fields),
      .has_own_memory = fields.Boolean("has_own_memory")};
  device.rules = device.kind == "cpu" ? CpuRules() : GpuRules();
  return device;
}

}  // namespace

std::string DeviceToJson(const DeviceDescription& device) {
  Json json = {{"neap_device", kFormat},
               {"name", device.name},
               {"kind", device.kind},
               {"memory_bytes", device.memory_bytes},
               {"host_memory_bytes", device.host_memory_bytes},
               {"fp32_flops_per_second", device.fp32_flops},
               {"tf32_flops_per_second", device.tf32_flops},
               {"half_flops_per_second", device.half_flops}};
  if (device.bf16_flops.has_value()) json["bf16_flops_per_second"] = *device.bf16_flops;
  json["memory_bytes_per_second"] = device.memory_bandwidth;
  json["copy_bytes_per_second"] = device.copy_bandwidth;
  json["peer_bytes_per_second"] = device.peer_bandwidth;
  json["collective_bytes_per_second"] = device.collective_bandwidth;
  json["collective_latency_seconds"] = device.collective_latency_seconds;
  json["copy_latency_seconds"] = device.copy_latency_seconds;
  json["slowdown_by_copies_out"] = device.slowdown_by_copies_out;
  json["slowdown_by_copies_back"] = device.slowdown_by_copies_back;
  json["slowdown_by_sums"] = device.slowdown_by_sums;
  json["doubled_by_sums_seconds"] = device.collective_interference_seconds;
  json["folding_types"] = Json::array();
  for (const DType type : device.folding_types) json["folding_types"].push_back(Name(type));
  json["page_bytes"] = device.page_bytes;
  json["has_own_memory"] = device.has_own_memory;
  if (device.gpu.has_value()) json["gpu"] = ToJson(*device.gpu);
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<DeviceDescription> DeviceFromJson(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text, kFile));
  JsonFields fields(json, kFile, "");
  RETURN_IF_ERROR(CheckFormat(fields));
  DeviceDescription device = ReadDevice(fields);
  if (json.contains("bf16_flops_per_second"))
    device.bf16_flops = Rate("bf16_flops_per_second", fields);
  if (const Json* const gpu = fields.Find("gpu")) {
    if (device.kind != "cuda") fields.Fail(absl::StrCat("a ", device.kind, " has no gpu"));
    RETURN_IF_ERROR(fields.status());
    ASSIGN_OR_RETURN(device.gpu, ReadGpu(*gpu));
  }
  RETURN_IF_ERROR(fields.Finish());
  return device;
}

absl::StatusOr<DeviceDescription> ReadDeviceFile(const std::string& path) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  ASSIGN_OR_RETURN(const std::string text, file.ReadAll(kMaxFileBytes));
  absl::StatusOr<DeviceDescription> device = DeviceFromJson(text);
  if (device.ok()) return device;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", device.status().message()));
}

}  // namespace neap
