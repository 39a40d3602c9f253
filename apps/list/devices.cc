// neap devices: the devices to train on, and the published cards that can be planned for.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/list/copy_speed.h"
#include "apps/list/describe_device.h"
#include "apps/list/sum_speed.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/cuda/cuda_device.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/devices/device_file.h"

namespace neap::apps {
namespace {

constexpr char kIndent[] = "         ";  // as wide as the column of names

struct Peer {
  std::string name;                      // for --peer
  std::optional<CopySpeed> copies = {};  // measured
};

struct Listed {
  std::string name;  // for --device
  bool trains = false;
  DeviceDescription description;
  std::optional<CopySpeed> copies = {};  // measured
  std::vector<Peer> peers = {};
};

struct DevicesCommand {
  bool json = false;
  bool measures_copies = false;
  std::string described;  // --describe
  std::string ranks;      // --measure-collectives
  std::string database;
};

std::string GpuName(size_t index) { return absl::StrCat("cuda:", index); }

absl::StatusOr<std::vector<Listed>> ListDevices() {
  std::vector<Listed> listed;
  ASSIGN_OR_RETURN(const std::unique_ptr<CpuDevice> cpu, CpuDevice::Open());
  listed.push_back({"cpu", true, cpu->description()});
  ASSIGN_OR_RETURN(const std::vector<DeviceDescription> gpus, ListCudaDevices());
  for (size_t i = 0; i < gpus.size(); ++i) {
    listed.push_back({GpuName(i), true, gpus[i]});
    ASSIGN_OR_RETURN(const std::vector<int> peers, CudaPeersOf(static_cast<int>(i)));
    for (int peer : peers) listed.back().peers.push_back({GpuName(static_cast<size_t>(peer))});
  }
  for (const std::string& name : DescribedDeviceNames()) {
    ASSIGN_OR_RETURN(DeviceDescription description, DescribedDevice(name));
    listed.push_back({name, false, std::move(description)});
  }
  return listed;
}

Json ToJson(const CopySpeed& copies, const char* out) {
  return {{out, copies.out},
          {"to_device", copies.back},
          {"both_ways", copies.both_ways},
          {"slowdown", copies.slowdown},
          {"slowdown_both_ways", copies.slowdown_both_ways}};
}

Json ToJson(const Peer& peer) {
  Json json = {{"device", peer.name}};
  if (peer.copies.has_value()) json["measured_copies"] = ToJson(*peer.copies, "to_peer");
  return json;
}

Json ToJson(const Listed& device) {
  const DeviceDescription& d = device.description;
  Json json = {{"device", device.name},
               {"kind", d.kind},
               {"name", d.name},
               {"trains", device.trains},
               {"memory_bytes", d.memory_bytes},
               {"host_memory_bytes", d.host_memory_bytes},
               {"fp32_flops", d.fp32_flops},
               {"tf32_flops", d.tf32_flops},
               {"half_flops", d.half_flops},
               {"bf16_flops", d.FlopsOf(DType::kBf16)},
               {"memory_bandwidth", d.memory_bandwidth},
               {"copy_bandwidth", d.copy_bandwidth},
               {"peer_bandwidth", d.peer_bandwidth},
               {"copy_latency_seconds", d.copy_latency_seconds},
               {"slowdown_by_copies_out", d.slowdown_by_copies_out},
               {"slowdown_by_copies_back", d.slowdown_by_copies_back},
               {"peers", Json::array()}};
  if (device.copies.has_value()) json["measured_copies"] = ToJson(*device.copies, "to_host");
  for (const Peer& peer : device.peers) json["peers"].push_back(ToJson(peer));
  return json;
}

std::string ToText(const CopySpeed& copies, const std::string& there) {
  return absl::StrFormat(
      "%smeasured: %.1f GB/s to %s, %.1f GB/s back, %.1f GB/s both ways; meanwhile copies within "
      "the device take %.1f%% longer, both ways %.1f%%\n",
      kIndent, copies.out / 1e9, there, copies.back / 1e9, copies.both_ways / 1e9,
      100 * copies.slowdown, 100 * copies.slowdown_both_ways);
}

std::string PeersText(const std::vector<Peer>& peers) {
  if (peers.empty()) return "";
  std::string text = absl::StrCat(
      kIndent, "possible --peer: ",
      absl::StrJoin(peers, ", ", [](std::string* out, const Peer& p) { out->append(p.name); }),
      "\n");
  for (const Peer& peer : peers) {
    if (peer.copies.has_value()) text += ToText(*peer.copies, peer.name);
  }
  return text;
}

std::string FlopsText(double flops) {
  return flops < 1e12 ? absl::StrFormat("%.3g GFLOP/s", flops / 1e9)
                      : absl::StrFormat("%.3g TFLOP/s", flops / 1e12);
}

// The rates that the device has: a CPU has no tensor cores, and only GPUs have peers.
std::string RatesText(const DeviceDescription& d) {
  std::string text = absl::StrCat("fp32 ", FlopsText(d.fp32_flops));
  const bool has_tf32 = d.tf32_flops > d.fp32_flops, has_half = d.half_flops > d.fp32_flops;
  if (has_tf32) absl::StrAppend(&text, ", tf32 ", FlopsText(d.tf32_flops));
  if (has_half) absl::StrAppend(&text, ", 16 bits ", FlopsText(d.half_flops));
  if (has_tf32 || has_half) text += " on tensor cores";
  absl::StrAppendFormat(&text, ", memory %.4g GB/s, host copies %.3g GB/s",
                        d.memory_bandwidth / 1e9, d.copy_bandwidth / 1e9);
  if (d.kind == "cuda" && d.peer_bandwidth > 0)
    absl::StrAppendFormat(&text, ", peer copies %.3g GB/s", d.peer_bandwidth / 1e9);
  return text;
}

std::string ToText(const Listed& device) {
  const DeviceDescription& d = device.description;
  std::string text = absl::StrFormat("%-9s%s, %s\n%splanned with %s\n", device.name, d.name,
                                     FormatBytes(d.memory_bytes), kIndent, RatesText(d));
  if (d.host_memory_bytes != d.memory_bytes)  // a CPU's memory is the host's
    absl::StrAppend(&text, kIndent, "host memory ", FormatBytes(d.host_memory_bytes), "\n");
  if (device.copies.has_value()) text += ToText(*device.copies, "the host");
  return text + PeersText(device.peers);
}

// A line for each card, which fits a terminal.
std::string CardsText(const std::vector<Listed>& devices) {
  std::string text = absl::StrFormat(
      "\ncards to plan for, which need not be here (neap devices --describe CARD prints all of "
      "one)\n%-10s %-24s %11s  %-23s  %s\n%36s%12s  %7s %7s %7s  %7s %7s\n",
      "", "", "", "TFLOP/s", "GB/s", "", "memory", "fp32", "tf32", "16 bits", "memory", "copies");
  for (const Listed& device : devices) {
    const DeviceDescription& d = device.description;
    if (device.trains) continue;
    absl::StrAppendFormat(&text, "%-10s %-24s %11s  %7.4g %7.4g %7.4g  %7.4g %7.4g\n", device.name,
                          d.name, FormatBytes(d.memory_bytes), d.fp32_flops / 1e12,
                          d.tf32_flops / 1e12, d.half_flops / 1e12, d.memory_bandwidth / 1e9,
                          d.copy_bandwidth / 1e9);
  }
  return text;
}

// Each link between two GPUs is measured once, from the GPU with the lower number.
absl::Status MeasureCopies(Listed& device) {
  ASSIGN_OR_RETURN(std::unique_ptr<Device> opened, OpenDevice(device.name));
  ASSIGN_OR_RETURN(device.copies, MeasureCopySpeed(*opened, MemoryKind::kPinnedHost));
  for (Peer& peer : device.peers) {
    if (GpuIndex(peer.name) < GpuIndex(device.name)) continue;
    ASSIGN_OR_RETURN(opened, OpenDevice(device.name, {.peer = peer.name}));
    ASSIGN_OR_RETURN(peer.copies, MeasureCopySpeed(*opened, MemoryKind::kPeer));
  }
  return absl::OkStatus();
}

void AddFlags(DevicesCommand& command, FlagSet& flags) {
  flags.Add("describe", "DEVICE",
            absl::StrCat("instead print one device as a FILE for --device of commands that plan: "
                         "cpu, cuda:N, whose copies are timed, ",
                         kDescribedDevices),
            Text(&command.described));
  flags.Add("measure-copies",
            "time copies to and from pinned host memory and peers, and what they slow down",
            &command.measures_copies);
  flags.Add(
      "measure-collectives", "DEVICES",
      "time sums over ranks on these devices, as for --device of neap train, and keep that in "
      "the profile database for plans; nothing is listed",
      Text(&command.ranks));
  flags.Add("database", "FILE", "the profile database (~/.cache/neap/profile.db)",
            Text(&command.database));
  flags.Add("json", "print one JSON object", &command.json);
}

absl::Status PrintDescription(const DevicesCommand& command) {
  if (!command.ranks.empty())
    return BadUsage("--describe and --measure-collectives exclude each other");
  ASSIGN_OR_RETURN(const DeviceDescription description,
                   DescribeDevice(command.described, command.measures_copies));
  Print(DeviceToJson(description));
  return absl::OkStatus();
}

absl::Status PrintDevices(const DevicesCommand& command) {
  ASSIGN_OR_RETURN(std::vector<Listed> devices, ListDevices());
  Json all = Json::array();
  for (Listed& device : devices) {
    if (command.measures_copies && device.trains) RETURN_IF_ERROR(MeasureCopies(device));
    if (command.json) all.push_back(ToJson(device));
    if (!command.json && device.trains) Print(ToText(device));
  }
  command.json ? PrintJson({{"devices", all}}) : Print(CardsText(devices));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunDevices(const std::vector<std::string>& args) {
  DevicesCommand command;
  FlagSet flags("neap devices [flags]",
                "Lists the devices to train on, and published cards to plan for.");
  AddFlags(command, flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  if (command.database == "none")
    return BadUsage("--database none: the times that are measured are kept in a file");
  if (!command.described.empty()) {
    RETURN_IF_ERROR(PrintDescription(command));
    return 0;
  }
  if (!command.ranks.empty())
    return MeasureCollectives(command.ranks, command.database, command.json);
  RETURN_IF_ERROR(PrintDevices(command));
  return 0;
}

}  // namespace neap::apps
