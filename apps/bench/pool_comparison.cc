#include "apps/bench/pool_comparison.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "apps/bench/per_tensor_run.h"
#include "apps/cli/interrupt.h"
#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/run/executor.h"
#include "neap/core/run/initialize.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/planner.h"

namespace neap::apps {
namespace {

constexpr int64_t kWarmUp = 3;  // steps; the second records the kernels
constexpr uint64_t kSeed = 1;
constexpr float kLearningRate = 1e-4F;

// One batch in pinned memory: images of a fixed pattern, and labels in turn.
class HostBatch {
 public:
  static absl::StatusOr<HostBatch> Create(const Program& program, Device& device) {
    HostBatch batch;
    for (const Port& feed : program.feeds) {
      for (const TensorId id : feed.parts) {
        RETURN_IF_ERROR(batch.Add(program.tensor(id), device,
                                  program.IsTarget(feed) ? FillLabels : FillImages));
      }
    }
    RETURN_IF_ERROR(batch.Add(program.tensor(program.iteration), device, FillScalars));
    return batch;
  }

  absl::Span<const Executor::HostValue> values() const { return values_; }

 private:
  using Fill = void (*)(const Tensor& tensor, const Buffer& buffer);

  static void FillImages(const Tensor& tensor, const Buffer& buffer) {
    std::vector<float> values(static_cast<size_t>(tensor.spec.elements()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i * 2654435761U % 256) / 128 - 1;
    FromNchw(values, tensor.spec, buffer.data());
  }
  static void FillLabels(const Tensor& tensor, const Buffer& buffer) {
    std::memset(buffer.data(), 0, static_cast<size_t>(buffer.size_bytes()));
    if (tensor.spec.dtype != DType::kInt32) return;
    auto* const labels = reinterpret_cast<int32_t*>(buffer.data());
    for (int64_t i = 0; i < tensor.spec.elements(); ++i) labels[i] = static_cast<int32_t>(i % 2);
  }
  static void FillScalars(const Tensor& /*tensor*/, const Buffer& buffer) {
    const IterationScalars scalars = {.learning_rate = kLearningRate, .step = 0, .seed = kSeed};
    std::memcpy(buffer.data(), &scalars, sizeof(scalars));
  }

  absl::Status Add(const Tensor& tensor, Device& device, Fill fill) {
    ASSIGN_OR_RETURN(Buffer buffer,
                     device.Allocate(MemoryKind::kPinnedHost, tensor.spec.size_bytes()));
    fill(tensor, buffer);
    values_.push_back({tensor.id, buffer.data(), buffer.size_bytes()});
    buffers_.push_back(std::move(buffer));
    return absl::OkStatus();
  }

  std::vector<Buffer> buffers_;
  std::vector<Executor::HostValue> values_;
};

// The initial values of persistent tensors, where the plan places them.
void FillPersistent(const Program& program, const Plan& plan, Buffer& start) {
  std::memset(start.data(), 0, static_cast<size_t>(start.size_bytes()));
  for (const Action& action : plan.actions) {
    const auto* const alloc = std::get_if<AllocAction>(&action);
    if (alloc == nullptr) continue;
    const Tensor& tensor = program.tensor(alloc->tensor);
    if (!IsPersistent(tensor.role)) continue;
    FromNchw(InitialValues(program.Original(tensor), kSeed), tensor.spec,
             start.data() + alloc->region.offset);
  }
}

std::vector<std::byte> Copied(const Buffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.size_bytes()};
}

// The median of `steps` steps, each until the device is idle. CANCELLED after Ctrl-C.
template <typename Step>
absl::StatusOr<double> MedianSeconds(Device& device, int64_t steps, const Step& step) {
  std::vector<double> seconds;
  for (int64_t i = -kWarmUp; i < steps; ++i) {
    if (Interrupted()) return absl::CancelledError("stopped");
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(step());
    RETURN_IF_ERROR(device.Synchronize());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (i >= 0) seconds.push_back(elapsed.count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + steps / 2, seconds.end());
  return seconds[static_cast<size_t>(steps / 2)];
}

class Comparison {
 public:
  Comparison(const Program& program, const Plan& plan, Device& device, const HostBatch& batch)
      : program_(program), plan_(plan), device_(device), batch_(batch) {}

  // Each side has the device to itself.
  absl::Status Run(PoolComparison& result) {
    RETURN_IF_ERROR(RunSeparate(result));
    RETURN_IF_ERROR(RunPool(/*records=*/false, result.pool_seconds, result));
    return RunPool(/*records=*/true, result.replayed_seconds, result);
  }

 private:
  absl::Status RunSeparate(PoolComparison& result) {
    ASSIGN_OR_RETURN(PerTensorRun run, PerTensorRun::Create(program_, plan_, device_));
    ASSIGN_OR_RETURN(host_, device_.Allocate(MemoryKind::kPinnedHost, run.persistent_bytes()));
    FillPersistent(program_, plan_, host_);
    start_ = Copied(host_);
    RETURN_IF_ERROR(run.SetPersistent(host_));
    ASSIGN_OR_RETURN(result.separate_seconds, MedianSeconds(device_, result.steps, [&] {
                       return run.Iterate(batch_.values());
                     }));
    result.allocations = run.allocations();
    RETURN_IF_ERROR(run.GetPersistent(host_));
    result.separate_parameters = Copied(host_);
    return absl::OkStatus();
  }

  absl::Status RunPool(bool records, double& seconds, PoolComparison& result) {
    ASSIGN_OR_RETURN(const Buffer arena, device_.Allocate(MemoryKind::kDevice, plan_.arena_bytes));
    ASSIGN_OR_RETURN(Executor executor, Executor::Create(program_, plan_, device_, {arena.data()}));
    if (!records) executor.DisableRecording();
    std::memcpy(host_.data(), start_.data(), start_.size());
    RETURN_IF_ERROR(device_.Copy(Stream::kCompute, arena.data(), host_.data(), host_.size_bytes()));
    ASSIGN_OR_RETURN(seconds, MedianSeconds(device_, result.steps, [&]() -> absl::Status {
                       RETURN_IF_ERROR(executor.Send(batch_.values()));
                       return executor.Run();
                     }));
    RETURN_IF_ERROR(device_.Copy(Stream::kCompute, host_.data(), arena.data(), host_.size_bytes()));
    RETURN_IF_ERROR(device_.Synchronize());
    result.pool_parameters = Copied(host_);
    return absl::OkStatus();
  }

  const Program& program_;
  const Plan& plan_;
  Device& device_;
  const HostBatch& batch_;
  Buffer host_;                   // of persistent tensors
  std::vector<std::byte> start_;  // their initial values
};

}  // namespace

absl::StatusOr<PoolComparison> ComparePool(const Graph& graph, Device& device,
                                           const PlannerOptions& options, int64_t steps) {
  ASSIGN_OR_RETURN(const Program program, Lower(graph, {}, device.description()));
  ASSIGN_OR_RETURN(const PlanResult planned,
                   MakePlan(program, options, device.description(), device.backend()));
  RETURN_IF_ERROR(Verify(planned.plan));
  RETURN_IF_ERROR(MatchesProgram(planned.plan, program));
  ASSIGN_OR_RETURN(const HostBatch batch, HostBatch::Create(program, device));
  PoolComparison result = {.batch = program.net.batch, .steps = steps};
  RETURN_IF_ERROR(Comparison(program, planned.plan, device, batch).Run(result));
  return result;
}

}  // namespace neap::apps
