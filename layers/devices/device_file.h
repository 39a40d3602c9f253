// A file with the description of a device, to plan for one that is elsewhere and not in the table
// of layers/devices/device_description.h. `neap devices --describe` writes such a file, `--device`
// reads it.
//
// A file is written on one machine, read on another, and changed by hand in between, so its numbers
// have units in their names, and nothing is guessed: whatever is missing, unknown or impossible is
// an error that names the field. The file of a device that is read and written again is the same to
// the byte, and so are plans made with it.
//
//  {"neap_device": 1, "name": "NVIDIA L4", "kind": "cuda",
//  "memory_bytes": 23612293120, "host_memory_bytes": 68719476736,
//  "fp32_flops_per_second": 30.3e12, "tf32_flops_per_second": 60e12,
//  "half_flops_per_second": 121e12, "memory_bytes_per_second": 300e9,
//  "copy_bytes_per_second": 25e9, "peer_bytes_per_second": 0,
//  "collective_bytes_per_second": 0, "collective_latency_seconds": 0,
//  "copy_latency_seconds": 5e-6, "slowdown_by_copies_out": 0.02,
//  "slowdown_by_copies_back": 0.06, "slowdown_by_sums": 0.25, "doubled_by_sums_seconds": 90e-6,
//  "folding_types": [], "page_bytes": 2097152, "has_own_memory": true,
//  "gpu": {"compute_capability": "8.9", "multiprocessors": 58, "clock_khz": 2040000,
//  "memory_clock_khz": 6251000, "memory_bus_bits": 192, "l2_cache_bytes": 50331648,
//  "threads_per_multiprocessor": 1536, "blocks_per_multiprocessor": 24,
//  "shared_memory_per_block_bytes": 101376,
//  "reserved_shared_memory_per_block_bytes": 1024}}
//
// The fields are those of DeviceDescription and GpuProperties. Two may be left out:
// "bf16_flops_per_second", where it is the rate of fp16, and "gpu", without which engines are not
// known.
//
//   const std::string text = DeviceToJson(device.description());
//   ASSIGN_OR_RETURN(const DeviceDescription same, DeviceFromJson(text));
//   ASSIGN_OR_RETURN(const DeviceDescription other, ReadDeviceFile("workstation.json"));
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// Ends with a line break.
std::string DeviceToJson(const DeviceDescription& device);

// Errors: INVALID_ARGUMENT with the field and what is wrong with it.
absl::StatusOr<DeviceDescription> DeviceFromJson(std::string_view text);
// Errors: the same with the path in front; those of ReadableFile (core/base/file.h).
absl::StatusOr<DeviceDescription> ReadDeviceFile(const std::string& path);

}  // namespace neap
