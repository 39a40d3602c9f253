#include "neap/layers/devices/device_description.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "neap/core/base/units.h"
#include "neap/layers/devices/nominal_gpu.h"

namespace neap {
namespace {

using doctest::Approx;

TEST_CASE("an H200 can be planned for without one") {
  const absl::StatusOr<DeviceDescription> h200 = DescribedDevice("h200");
  REQUIRE(h200.ok());
  CHECK(h200->name == "NVIDIA H200");
  CHECK(h200->kind == "cuda");
  CHECK(h200->memory_bytes == 150109880320);
  CHECK(h200->host_memory_bytes == 256 * kGiB);
  CHECK(h200->fp32_flops == 60e12);
  CHECK(h200->tf32_flops == 400e12);
  CHECK(h200->half_flops == 790e12);
  CHECK(h200->FlopsOf(DType::kBf16) == 790e12);
  CHECK(h200->memory_bandwidth == 4.3e12);
  CHECK(h200->copy_bandwidth == 55.5e9);
  CHECK(h200->peer_bandwidth == 450e9);
  CHECK(h200->copy_latency_seconds == 5e-6);
  CHECK(h200->slowdown_by_copies_out == 0.02);
  CHECK(h200->slowdown_by_copies_back == 0.06);
  CHECK(h200->slowdown_by_sums == 0.25);
  CHECK(h200->collective_interference_seconds == 90e-6);
  CHECK(h200->folding_types == std::vector<DType>{DType::kFp16, DType::kBf16, DType::kTf32});
  CHECK(h200->page_bytes == 2 * kMiB);
}

TEST_CASE("every described device is found by its name and has all its rates") {
  const std::vector<std::string> names = DescribedDeviceNames();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  std::set<std::string> driver_names;
  for (const std::string& name : names) {
    CAPTURE(name);
    const absl::StatusOr<DeviceDescription> device = DescribedDevice(name);
    REQUIRE(device.ok());
    CHECK(driver_names.insert(device->name).second);
    CHECK(device->kind == "cuda");
    CHECK(device->memory_bytes > 10 * kGiB);
    CHECK(device->host_memory_bytes >= 64 * kGiB);
    CHECK(device->fp32_flops > 1e12);
    CHECK(device->tf32_flops >= device->fp32_flops);
    CHECK(device->half_flops >= device->tf32_flops);
    CHECK(device->FlopsOf(DType::kBf16) >= device->fp32_flops);
    CHECK(device->FlopsOf(DType::kBf16) <= device->half_flops);
    CHECK(device->has_own_memory);
    CHECK(device->memory_bandwidth > 100e9);
    CHECK(device->copy_bandwidth > 1e9);
    CHECK(device->copy_bandwidth < device->memory_bandwidth);
    CHECK(device->peer_bandwidth >= 0);
    CHECK(device->page_bytes == 2 * kMiB);
    CHECK(device->gpu.has_value());
  }
}

// Bytes of memory as they are sold, and published rates: TFLOP/s without sparsity, GB/s.
struct Published {
  const char* name;
  double memory_gb;
  double fp32, tf32, fp16, bf16;
  double bandwidth;
};

TEST_CASE("cards have the rates of their data sheets") {
  for (const Published& published : {Published{"k40c", 12, 4.29, 4.29, 4.29, 4.29, 288},
                                     Published{"p100", 16, 10.6, 10.6, 10.6, 10.6, 732},
                                     Published{"v100", 16, 15.7, 15.7, 125, 15.7, 900},
                                     Published{"v100-32gb", 32, 15.7, 15.7, 125, 15.7, 900},
                                     Published{"a100-40gb", 40, 19.5, 156, 312, 312, 1555},
                                     Published{"a100-80gb", 80, 19.5, 156, 312, 312, 2039},
                                     Published{"rtx3090", 24, 35.6, 35.6, 71, 71, 936},
                                     Published{"l4", 24, 30.3, 60, 121, 121, 300},
                                     Published{"l40s", 48, 91.6, 183, 362.05, 362.05, 864},
                                     Published{"rtx4090", 24, 82.6, 82.6, 165.2, 165.2, 1008},
                                     Published{"h100", 80, 67, 494.5, 989.5, 989.5, 3350},
                                     Published{"gh200", 96, 67, 494.5, 989.5, 989.5, 4000},
                                     Published{"b200", 180, 75, 1125, 2250, 2250, 8000 * 0.959},
                                     Published{"rtx5090", 32, 104.8, 104.8, 209.5, 209.5, 1792}}) {
    CAPTURE(published.name);
    const DeviceDescription card = DescribedDevice(published.name).value();
    CHECK(card.fp32_flops == Approx(published.fp32 * 1e12).epsilon(0.005));
    CHECK(card.tf32_flops == Approx(published.tf32 * 1e12).epsilon(0.005));
    CHECK(card.FlopsOf(DType::kFp16) == Approx(published.fp16 * 1e12).epsilon(0.005));
    CHECK(card.FlopsOf(DType::kBf16) == Approx(published.bf16 * 1e12).epsilon(0.005));
    CHECK(card.memory_bandwidth == Approx(published.bandwidth * 1e9).epsilon(0.005));
    // The driver keeps some, and sellers write GB for GiB, or for GB.
    const auto bytes = static_cast<double>(card.memory_bytes);
    CHECK(bytes < published.memory_gb * static_cast<double>(kGiB));
    CHECK(bytes > published.memory_gb * 0.9 * static_cast<double>(kGiB));
  }
}

TEST_CASE("what a driver says of a card gives about the rates that are published") {
  for (const std::string& name : DescribedDeviceNames()) {
    if (name == "h200") continue;  // measured
    CAPTURE(name);
    const DeviceDescription card = DescribedDevice(name).value();
    const DeviceDescription nominal = NominalGpu(card.name, *card.gpu);
    CHECK(nominal.fp32_flops == Approx(card.fp32_flops).epsilon(0.01));
    // Tensor cores of Hopper and B200 are rated at a lower clock.
    const bool is_rated_lower =
        card.gpu->compute_capability == 90 || card.gpu->compute_capability == 100;
    const double most = is_rated_lower ? 1.09 : 1.015;
    for (const DType dtype : {DType::kTf32, DType::kFp16, DType::kBf16}) {
      CHECK(nominal.FlopsOf(dtype) > 0.99 * card.FlopsOf(dtype));
      CHECK(nominal.FlopsOf(dtype) < most * card.FlopsOf(dtype));
    }
    CHECK(nominal.memory_bandwidth == Approx(card.memory_bandwidth).epsilon(0.01));
    CHECK(nominal.folding_types == card.folding_types);
    CHECK(nominal.bf16_flops.has_value() == card.bf16_flops.has_value());
  }
}

// One multiprocessor at 1 GHz, so that rates in GFLOP/s are operations per clock.
DeviceDescription OneMultiprocessor(int64_t compute_capability, const std::string& name) {
  return NominalGpu(name, WithLimits({.compute_capability = compute_capability,
                                      .multiprocessors = 1,
                                      .clock_khz = 1'000'000,
                                      .memory_clock_khz = 1'000'000,
                                      .memory_bus_bits = 8}));
}

TEST_CASE("a GeForce has half the tensor cores' rates of other GPUs of its generation") {
  for (const int64_t capability : {86, 89, 120}) {
    CAPTURE(capability);
    const DeviceDescription full = OneMultiprocessor(capability, "NVIDIA RTX A6000");
    const DeviceDescription geforce = OneMultiprocessor(capability, "NVIDIA GeForce RTX 3090");
    CHECK(full.fp32_flops == 256e9);
    CHECK(full.tf32_flops == 512e9);
    CHECK(full.half_flops == 1024e9);
    CHECK(geforce.fp32_flops == 256e9);
    CHECK(geforce.tf32_flops == 256e9);
    CHECK(geforce.half_flops == 512e9);
  }
}

TEST_CASE("a GPU that is not known has the rates and limits of the one before it") {
  const DeviceDescription b300 = OneMultiprocessor(103, "NVIDIA B300");
  CHECK(b300.half_flops == 8192e9);
  CHECK(b300.gpu->threads_per_multiprocessor == 2048);
  const DeviceDescription later = OneMultiprocessor(999, "some GPU");
  CHECK(later.half_flops == 1024e9);
  CHECK(later.gpu->threads_per_multiprocessor == 1536);
  const DeviceDescription fermi = OneMultiprocessor(20, "Tesla C2050");
  CHECK(fermi.half_flops == fermi.fp32_flops);
  CHECK(later.memory_bandwidth == 2e9);
}

TEST_CASE("only GPUs with tensor cores for fp16 alone have a rate of bf16 of their own") {
  CHECK(OneMultiprocessor(70, "V100").bf16_flops == 128e9);
  CHECK(OneMultiprocessor(75, "T4").bf16_flops == 128e9);
  CHECK(!OneMultiprocessor(60, "P100").bf16_flops.has_value());
  CHECK(!OneMultiprocessor(80, "A100").bf16_flops.has_value());
  CHECK(OneMultiprocessor(75, "T4").FlopsOf(DType::kBf16) == 128e9);
  CHECK(OneMultiprocessor(75, "T4").FlopsOf(DType::kFp16) == 1024e9);
  CHECK(OneMultiprocessor(75, "T4").FlopsOf(DType::kTf32) == 128e9);
}

TEST_CASE("limits of a multiprocessor are those of its compute capability") {
  const auto limits = [](int64_t capability) {
    return WithLimits({.compute_capability = capability});
  };
  CHECK(limits(90).shared_memory_per_block_bytes == 227 * kKiB);
  CHECK(limits(90).reserved_shared_memory_per_block_bytes == kKiB);
  CHECK(limits(80).shared_memory_per_block_bytes == 163 * kKiB);
  CHECK(limits(89).blocks_per_multiprocessor == 24);
  CHECK(limits(86).blocks_per_multiprocessor == 16);
  CHECK(limits(75).threads_per_multiprocessor == 1024);
  CHECK(limits(70).reserved_shared_memory_per_block_bytes == 0);
}

TEST_CASE("an unknown device is refused with the list of known ones") {
  const absl::Status status = DescribedDevice("h201").status();
  CHECK(status.code() == absl::StatusCode::kNotFound);
  CHECK(status.message() ==
        "no description of a device 'h201'; there are: k40c, p100, v100, v100-32gb, a100-40gb, "
        "a100-80gb, rtx3090, l4, l40s, rtx4090, h100, h200, gh200, b200, rtx5090");
}

TEST_CASE("stream names parse back") {
  for (Stream stream : {Stream::kCompute, Stream::kD2h, Stream::kH2d}) {
    const absl::StatusOr<Stream> parsed = ParseStream(Name(stream));
    REQUIRE(parsed.ok());
    CHECK(*parsed == stream);
  }
  // No action of a plan runs there.
  CHECK(ParseStream(Name(Stream::kInput)).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ParseStream("d2d").status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace neap
