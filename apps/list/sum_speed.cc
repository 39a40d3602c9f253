#include "apps/list/sum_speed.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/cli/ranks.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/layers/profile/profiled_timings.h"

namespace neap::apps {
namespace {

constexpr int64_t kSizes[] = {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB};
constexpr int kSamples = 9;  // after one that is not counted

// Fills the memory with zeros, whose sum stays finite however often it is taken.
absl::Status Clear(Device& device, const Buffer& memory) {
  ASSIGN_OR_RETURN(const Buffer zeros,
                   device.Allocate(MemoryKind::kPinnedHost, memory.size_bytes()));
  std::memset(zeros.data(), 0, static_cast<size_t>(zeros.size_bytes()));
  RETURN_IF_ERROR(
      device.Copy(Stream::kCollective, memory.data(), zeros.data(), zeros.size_bytes()));
  return device.Synchronize();
}

// The time of a sum behind a large one, during which the host enqueues it and the ranks come
// together.
absl::StatusOr<double> TimeSum(Device& device, Communicator& communicator,
                               const std::vector<ReduceBuffer>& large,
                               const std::vector<ReduceBuffer>& bucket) {
  RETURN_IF_ERROR(communicator.AllReduce(large));
  ASSIGN_OR_RETURN(const Event begin, device.RecordTime(Stream::kCollective));
  RETURN_IF_ERROR(communicator.AllReduce(bucket));
  ASSIGN_OR_RETURN(const Event end, device.RecordTime(Stream::kCollective));
  RETURN_IF_ERROR(device.Synchronize());
  ASSIGN_OR_RETURN(const double us, device.ElapsedUs(begin, end));
  return std::max(us * 1e-6, kMinMeasuredSeconds);
}

absl::Status Record(Device& device, int ranks, const std::vector<TimedSum>& sums,
                    const std::string& database) {
  const DeviceDescription& description = device.description();
  ASSIGN_OR_RETURN(const std::string path, ProfilePath(database));
  ASSIGN_OR_RETURN(ProfileDatabase opened,
                   ProfileDatabase::Open(path, {description.name, device.backend().Versions()}));
  const Engine engine = {.id = description.kind == "cuda" ? "nccl" : "in order of ranks"};
  for (const TimedSum& sum : sums) {
    RETURN_IF_ERROR(opened.Record(SumOperation(ranks), {.batch = sum.bytes,
                                                        .engine = engine,
                                                        .median_seconds = sum.seconds,
                                                        .repeats = kSamples}));
  }
  return absl::OkStatus();
}

std::string SumsText(Device& device, int ranks, const std::vector<TimedSum>& sums) {
  const DeviceDescription measured = WithMeasuredSums({}, sums);
  return absl::StrFormat("sums over %d ranks on %s: %.1f us, and %.2f GB/s of tensors\n", ranks,
                         device.description().name, 1e6 * measured.collective_latency_seconds,
                         1e-9 * measured.collective_bandwidth);
}

Json SumsJson(Device& device, int ranks, const std::vector<TimedSum>& sums) {
  const DeviceDescription measured = WithMeasuredSums({}, sums);
  Json json = {{"ranks", ranks},
               {"name", device.description().name},
               {"latency_seconds", measured.collective_latency_seconds},
               {"bytes_per_second", measured.collective_bandwidth},
               {"sums", Json::array()}};
  for (const TimedSum& sum : sums)
    json["sums"].push_back({{"bytes", sum.bytes}, {"seconds", sum.seconds}});
  return json;
}

}  // namespace

absl::StatusOr<std::vector<TimedSum>> MeasureSums(Device& device, Communicator& communicator) {
  const int64_t largest = *std::max_element(std::begin(kSizes), std::end(kSizes));
  ASSIGN_OR_RETURN(const Buffer memory, device.Allocate(MemoryKind::kDevice, largest));
  RETURN_IF_ERROR(Clear(device, memory));
  const auto bucket_of = [&](int64_t bytes) {
    return std::vector<ReduceBuffer>{{.data = reinterpret_cast<float*>(memory.data()),
                                      .count = bytes / static_cast<int64_t>(sizeof(float))}};
  };
  std::vector<TimedSum> sums;
  for (const int64_t bytes : kSizes) {
    std::vector<double> seconds;
    for (int i = 0; i <= kSamples; ++i) {
      ASSIGN_OR_RETURN(seconds.emplace_back(),
                       TimeSum(device, communicator, bucket_of(largest), bucket_of(bytes)));
    }
    seconds.erase(seconds.begin());
    std::nth_element(seconds.begin(), seconds.begin() + kSamples / 2, seconds.end());
    sums.push_back({bytes, seconds[kSamples / 2]});
  }
  return sums;
}

absl::StatusOr<int> MeasureCollectives(const std::string& devices, const std::string& database,
                                       bool json) {
  return RunRanks({}, devices, [&](RankGroup& ranks) -> absl::StatusOr<int> {
    if (ranks.ranks() == 1)
      return BadUsage("--measure-collectives needs several devices: cuda:0,cuda:1");
    ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenDevice(ranks.device()));
    ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator, ranks.Join(*device));
    ASSIGN_OR_RETURN(const std::vector<TimedSum> sums, MeasureSums(*device, *communicator));
    if (ranks.is_first()) RETURN_IF_ERROR(Record(*device, ranks.ranks(), sums, database));
    json ? PrintJson(SumsJson(*device, ranks.ranks(), sums))
         : Print(SumsText(*device, ranks.ranks(), sums));
    return 0;
  });
}

}  // namespace neap::apps
