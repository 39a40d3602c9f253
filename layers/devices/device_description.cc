#include "neap/layers/devices/device_description.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/units.h"
#include "neap/layers/devices/nominal_gpu.h"

namespace neap {
namespace {

struct Card {
  std::string_view name;
  const char* driver_name;
  int64_t memory_bytes;
  int64_t host_gib;             // of the host that it usually has, per card
  double fp32, tf32, half;      // TFLOP/s
  double memory, copies, peer;  // GB/s; copies are one way
};

struct Chip {
  std::string_view card;
  int64_t compute_capability;
  int64_t multiprocessors;
  int64_t mhz, memory_mhz;
  int64_t memory_bus_bits;
  int64_t l2_kib;
};

// Copies between pinned host memory and a device over 16 lanes of PCI Express, GB/s, measured with
// bandwidthTest (3.0), nvbandwidth (4.0, A100) and neap (5.0, H200).
constexpr double kPcie3 = 12, kPcie4 = 25, kPcie5 = 55.5;

// Memory is the cudaDeviceProp::totalGlobalMem of a card; drivers differ by some MiB. Rates are
// those of the data sheets, or half of them where a sheet counts zeros (sparsity). Peers are
// reached over NVLink, at half of the published sum of both directions, or over PCI Express.
//
//   k40c     Data sheet of the Tesla K40; links as SuperNeurons 3.3.2 gives them; moDNN's host has
//            256 GB for four K40.
//   p100     SXM2, 16 GB. The published 21.2 TFLOP/s in fp16 are for sums in fp16; with sums in
//            fp32 the rate is that of fp32. A peer in a DGX-1 has one NVLink.
//   v100     SXM2. Tensor cores are for fp16 only. A peer in a DGX-1 has one or two NVLinks.
//   a100     SXM4, in a DGX A100.
//   rtx3090  White paper of GA102; two of them may have an NVLink bridge.
//   l4,      Data sheets; peers over PCI Express 4.0.
//   l40s
//   rtx4090  White paper of Ada; no peers, as the driver refuses them.
//   h100     SXM5, 80 GB HBM3, in a DGX H100.
//   h200     In a DGX H200. Measured: 16 bits (products of large matrices), memory (copies within
//            the device) and copies; fp32 and tf32 are nominal.
//   gh200    96 GB HBM3 and 480 GB LPDDR5X. NVLink-C2C has 450 GB/s; of that copies to the host
//            reach 297 and copies from there 375 (Schieffer et al., ICPP 2024).
//   b200     SXM, 180 GB, rates of a DGX B200. The memory's published 8 TB/s are 7.67 by its clock.
//   rtx5090  White paper of RTX Blackwell; no peers, as for the rtx4090.
constexpr Card kCards[] = {
    // --device, driver's name, bytes, GiB of the host; TFLOP/s in fp32, tf32 and 16 bits; GB/s of
    // memory, copies and peer
    {"k40c", "Tesla K40c", 12079136768, 64, 4.29, 4.29, 4.29, 288, 8, 10},
    {"p100", "Tesla P100-SXM2-16GB", 17071734784, 64, 10.6, 10.6, 10.6, 732, kPcie3, 20},
    {"v100", "Tesla V100-SXM2-16GB", 16945512448, 64, 15.7, 15.7, 125, 900, kPcie3, 25},
    {"v100-32gb", "Tesla V100-SXM2-32GB", 34089730048, 64, 15.7, 15.7, 125, 900, kPcie3, 25},
    {"a100-40gb", "NVIDIA A100-SXM4-40GB", 42298834944, 128, 19.5, 156, 312, 1555, kPcie4, 300},
    {"a100-80gb", "NVIDIA A100-SXM4-80GB", 84974239744, 256, 19.5, 156, 312, 2039, kPcie4, 300},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 25447170048, 64, 35.6, 35.6, 71, 936, kPcie4, 56.25},
    {"l4", "NVIDIA L4", 23612293120, 64, 30.3, 60, 121, 300, kPcie4, kPcie4},
    {"l40s", "NVIDIA L40S", 47810936832, 128, 91.6, 183, 362, 864, kPcie4, kPcie4},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 25393692672, 64, 82.6, 82.6, 165.2, 1008, kPcie4, 0},
    {"h100", "NVIDIA H100 80GB HBM3", 85017493504, 256, 66.9, 494.7, 989.4, 3350, kPcie5, 450},
    {"h200", "NVIDIA H200", 150109880320, 256, 60, 400, 790, 4300, kPcie5, 450},
    {"gh200", "NVIDIA GH200 480GB", 102005473280, 480, 66.9, 494.7, 989.4, 4000, 297, 0},
    {"b200", "NVIDIA B200", 191514411008, 256, 75, 1125, 2250, 7672, kPcie5, 900},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 33677180928, 64, 104.8, 104.8, 209.5, 1792, kPcie5, 0},
};

// Chips as deviceQuery prints them, but GeForces at the boost clock that NVIDIA publishes, which is
// lower than that of other makers' cards. They are in the same order.
constexpr Chip kChips[] = {
    // the card; compute capability, multiprocessors, MHz, MHz of memory, bits of its bus, KiB of L2
    {"k40c", 35, 15, 745, 3004, 384, 1536},
    {"p100", 60, 56, 1480, 715, 4096, 4096},
    {"v100", 70, 80, 1530, 877, 4096, 6144},
    {"v100-32gb", 70, 80, 1530, 877, 4096, 6144},
    {"a100-40gb", 80, 108, 1410, 1215, 5120, 40960},
    {"a100-80gb", 80, 108, 1410, 1593, 5120, 40960},
    {"rtx3090", 86, 82, 1695, 9751, 384, 6144},
    {"l4", 89, 58, 2040, 6251, 192, 49152},
    {"l40s", 89, 142, 2520, 9001, 384, 98304},
    {"rtx4090", 89, 128, 2520, 10501, 384, 73728},
    {"h100", 90, 132, 1980, 2619, 5120, 51200},
    {"h200", 90, 132, 1980, 3201, 6144, 61440},
    {"gh200", 90, 132, 1980, 2619, 6144, 61440},
    {"b200", 100, 148, 1965, 3996, 7680, 129536},
    {"rtx5090", 120, 170, 2407, 14001, 512, 98304},
};

constexpr bool AreOfTheSameCards() {
  for (size_t i = 0; i < std::size(kCards); ++i) {
    if (kCards[i].name != kChips[i].card) return false;
  }
  return std::size(kCards) == std::size(kChips);
}
static_assert(AreOfTheSameCards());

// Exactly 82600000000000 for 82.6 and 1e12.
double Times(double number, double unit) { return std::round(number * unit); }

DeviceDescription Described(const Card& card, const Chip& chip) {
  const GpuProperties gpu = WithLimits({.compute_capability = chip.compute_capability,
                                        .multiprocessors = chip.multiprocessors,
                                        .clock_khz = 1000 * chip.mhz,
                                        .memory_clock_khz = 1000 * chip.memory_mhz,
                                        .memory_bus_bits = chip.memory_bus_bits,
                                        .l2_cache_bytes = chip.l2_kib * kKiB});
  DeviceDescription device = NominalGpu(card.driver_name, gpu);
  device.memory_bytes = card.memory_bytes;
  device.host_memory_bytes = card.host_gib * kGiB;
  device.fp32_flops = Times(card.fp32, 1e12);
  device.tf32_flops = Times(card.tf32, 1e12);
  device.half_flops = Times(card.half, 1e12);
  if (device.bf16_flops.has_value()) device.bf16_flops = device.fp32_flops;
  device.memory_bandwidth = Times(card.memory, 1e9);
  device.copy_bandwidth = Times(card.copies, 1e9);
  device.peer_bandwidth = Times(card.peer, 1e9);
  return device;
}

}  // namespace

absl::StatusOr<DeviceDescription> DescribedDevice(std::string_view name) {
  for (size_t i = 0; i < std::size(kCards); ++i) {
    if (kCards[i].name == name) return Described(kCards[i], kChips[i]);
  }
  return absl::NotFoundError(absl::StrFormat("no description of a device '%s'; there are: %s", name,
                                             absl::StrJoin(DescribedDeviceNames(), ", ")));
}

std::vector<std::string> DescribedDeviceNames() {
  std::vector<std::string> names;
  for (const Card& card : kCards) names.emplace_back(card.name);
  return names;
}

}  // namespace neap
