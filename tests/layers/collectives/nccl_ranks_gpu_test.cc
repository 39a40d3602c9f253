// Sums over two GPUs of this machine, by NCCL.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "neap/core/device/device.h"
#include "neap/layers/collectives/nccl_ranks.h"
#include "tests/gpu_test.h"

namespace neap::testing {
namespace {

using Communicators = std::vector<std::unique_ptr<Communicator>>;

Communicators Join(const std::vector<std::unique_ptr<CudaDevice>>& gpus,
                   std::chrono::milliseconds timeout) {
  std::vector<CudaDevice*> devices;
  for (const std::unique_ptr<CudaDevice>& gpu : gpus) devices.push_back(gpu.get());
  absl::StatusOr<Communicators> joined = JoinByNccl(devices, timeout);
  REQUIRE_MESSAGE(joined.ok(), joined.status().ToString());
  return *std::move(joined);
}

// Values on a GPU, and where the host sees them.
class Values {
 public:
  Values(Device& device, const std::vector<float>& values)
      : device_(device), count_(std::ssize(values)) {
    const int64_t bytes = count_ * static_cast<int64_t>(sizeof(float));
    on_device_ = *device.Allocate(MemoryKind::kDevice, bytes);
    on_host_ = *device.Allocate(MemoryKind::kPinnedHost, bytes);
    std::memcpy(on_host_.data(), values.data(), static_cast<size_t>(bytes));
    Copy(on_device_, on_host_);
  }
  ReduceBuffer buffer(float weight) const {
    return {reinterpret_cast<float*>(on_device_.data()), count_, weight};
  }
  // The first part has as many values.
  ShardedTensor sharded(int64_t first) const {
    constexpr int64_t kBytes = sizeof(float);
    return {on_device_.data(), {first * kBytes, (count_ - first) * kBytes}};
  }
  std::vector<float> Read() {
    Copy(on_host_, on_device_);
    const auto* const first = reinterpret_cast<const float*>(on_host_.data());
    return {first, first + count_};
  }

 private:
  void Copy(const Buffer& to, const Buffer& from) {
    REQUIRE(device_.Copy(Stream::kCollective, to.data(), from.data(), from.size_bytes()).ok());
    const absl::Status done = device_.Synchronize();
    REQUIRE_MESSAGE(done.ok(), done.ToString());
  }

  Device& device_;
  int64_t count_;
  Buffer on_device_, on_host_;
};

// Calls sum(rank) for all ranks, each on a thread of its own: the first sum connects the GPUs.
void OnAll(const std::function<absl::Status(size_t rank)>& sum) {
  std::vector<absl::Status> ended(2);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] { ended[rank] = sum(rank); });
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : ended) REQUIRE_MESSAGE(status.ok(), status.ToString());
}

TEST_CASE("GPUs sum buckets of tensors, each with its rank's weight") {
  const auto gpus = OpenGpusOrSkip(2);
  if (gpus.empty()) return;
  const Communicators ranks = Join(gpus, std::chrono::seconds(60));
  constexpr size_t kLarge = 3'000'001;
  std::vector<Values> small, large;
  for (size_t rank = 0; rank < 2; ++rank) {
    const auto value = static_cast<float>(rank + 1);
    small.emplace_back(*gpus[rank], std::vector<float>(7, value));
    large.emplace_back(*gpus[rank], std::vector<float>(kLarge, value));
  }
  for (int round = 0; round < 3; ++round) {
    OnAll([&](size_t rank) {
      const float weight = rank == 0 ? 0.25F : 0.75F;
      return ranks[rank]->AllReduce(
          {small[rank].buffer(weight), large[rank].buffer(1), {nullptr, 0, 1}});
    });
  }
  // 0.25 * 1 + 0.75 * 2 on both, which the next rounds leave; 3, 6, 12.
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(small[rank].Read() == std::vector<float>(7, 1.75F));
    CHECK(large[rank].Read() == std::vector<float>(kLarge, 12));
  }
}

TEST_CASE("GPUs exchange even and uneven parts of tensors, and those of one rank") {
  const auto gpus = OpenGpusOrSkip(2);
  if (gpus.empty()) return;
  const Communicators ranks = Join(gpus, std::chrono::seconds(60));
  constexpr size_t kEven = 1'000'000, kRest = 5;
  const std::vector<std::pair<size_t, size_t>> parts = {
      {kEven, kEven}, {kEven, kEven + kRest}, {7, 0}, {0, 9}, {kEven, kRest}};
  std::vector<std::vector<Values>> values(2);
  std::vector<std::vector<ShardedTensor>> tensors(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    for (const auto& [first, second] : parts) {
      values[rank].emplace_back(*gpus[rank],
                                std::vector<float>(first + second, static_cast<float>(rank + 1)));
      tensors[rank].push_back(values[rank].back().sharded(static_cast<int64_t>(first)));
    }
  }
  OnAll([&](size_t rank) { return ranks[rank]->ReduceScatter(tensors[rank]); });
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto first = static_cast<std::ptrdiff_t>(parts[i].first);
    const std::vector<float> of_first = values[0][i].Read(), of_second = values[1][i].Read();
    CHECK(std::count(of_first.begin(), of_first.begin() + first, 3.0F) == first);
    CHECK(std::count(of_second.begin() + first, of_second.end(), 3.0F) ==
          static_cast<std::ptrdiff_t>(parts[i].second));
  }
  OnAll([&](size_t rank) { return ranks[rank]->AllGather(tensors[rank]); });
  for (size_t rank = 0; rank < 2; ++rank) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t count = parts[i].first + parts[i].second;
      CHECK(values[rank][i].Read() == std::vector<float>(count, 3));
    }
  }
}

TEST_CASE("a rank that waits in vain for a sum ends with an error, and so does its device") {
  const auto gpus = OpenGpusOrSkip(2);
  if (gpus.empty()) return;
  const Communicators ranks = Join(gpus, std::chrono::seconds(10));
  std::vector<Values> values;
  for (size_t rank = 0; rank < 2; ++rank)
    values.emplace_back(*gpus[rank], std::vector<float>(1000, 1));
  OnAll([&](size_t rank) { return ranks[rank]->AllReduce({values[rank].buffer(1)}); });
  REQUIRE(ranks[0]->AllReduce({values[0].buffer(1)}).ok());
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status waited = gpus[0]->Synchronize();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  CHECK(absl::IsUnavailable(waited));
  CHECK(waited.message() == "another rank does not answer within 10 s");
  CHECK(seconds.count() < 30);
  CHECK(gpus[0]->Record(Stream::kCompute).status() == waited);
  CHECK(ranks[0]->AllReduce({values[0].buffer(1)}) == waited);
}

}  // namespace
}  // namespace neap::testing
