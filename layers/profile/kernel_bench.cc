#include "neap/layers/profile/kernel_bench.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"

namespace neap {
namespace {

// Operands are filled with copies of these. Their order is that of PatternFor().
constexpr int64_t kPatternBytes = 4 * kMiB;
constexpr int kPatterns = 4;
constexpr int64_t kPatternsBytes = kPatterns * kPatternBytes;
static_assert(kPatternsBytes == KernelBench::kOwnBytes);

// Integers are 0, and so are the values of a scaled loss, which would otherwise skip updates.
bool IsZero(const OperandSpec& operand) {
  const DType dtype = operand.tensor.dtype;
  return dtype == DType::kUInt8 || dtype == DType::kInt32 ||
         operand.operand.slot == Slot::kLossScale;
}

// Numbers in [-1, 1).
template <typename T>
void FillWithNumbers(std::byte* bytes) {
  std::mt19937 random(1);
  auto* const numbers = reinterpret_cast<T*>(bytes);
  for (size_t i = 0; i < kPatternBytes / sizeof(T); ++i)
    numbers[i] = T(static_cast<float>(random()) * 0x1p-31F - 1.0F);
}

int64_t OperandBytes(const StepSignature& signature) {
  int64_t bytes = 0;
  for (const OperandSpec& operand : signature.operands)
    bytes += RoundUp(operand.tensor.size_bytes(), kBlockBytes);
  return bytes;
}

}  // namespace

int64_t KernelBench::BytesFor(const StepSignature& signature, int64_t workspace_bytes) {
  return kPatternsBytes + OperandBytes(signature) + RoundUp(workspace_bytes, kBlockBytes);
}

absl::StatusOr<KernelBench> KernelBench::Create(Device& device, int64_t bytes, int64_t samples) {
  KernelBench bench(device, samples);
  ASSIGN_OR_RETURN(bench.memory_,
                   device.Allocate(MemoryKind::kDevice, std::max(bytes, kPatternsBytes)));
  ASSIGN_OR_RETURN(const Buffer patterns, device.Allocate(MemoryKind::kPinnedHost, kPatternsBytes));
  std::byte* const at = patterns.data();
  FillWithNumbers<float>(at);
  FillWithNumbers<Fp16>(at + kPatternBytes);
  FillWithNumbers<Bf16>(at + 2 * kPatternBytes);
  std::memset(at + 3 * kPatternBytes, 0, static_cast<size_t>(kPatternBytes));
  RETURN_IF_ERROR(device.Copy(Stream::kCompute, bench.memory_.data(), at, kPatternsBytes));
  RETURN_IF_ERROR(device.Synchronize());  // before the host's memory is freed
  return bench;
}

int64_t KernelBench::WorkspaceBytes(const StepSignature& signature) const {
  return memory_.size_bytes() - BytesFor(signature, 0);
}

const std::byte* KernelBench::PatternFor(const OperandSpec& operand) const {
  int pattern = 0;
  if (operand.tensor.dtype == DType::kFp16) pattern = 1;
  if (operand.tensor.dtype == DType::kBf16) pattern = 2;
  if (IsZero(operand)) pattern = 3;
  return memory_.data() + pattern * kPatternBytes;
}

absl::Status KernelBench::Place(const StepSignature& signature) {
  operands_.clear();
  std::byte* place = memory_.data() + kPatternsBytes;
  for (const OperandSpec& operand : signature.operands) {
    const std::byte* const pattern = PatternFor(operand);
    const int64_t bytes = operand.tensor.size_bytes();
    for (int64_t at = 0; at < bytes; at += kPatternBytes) {
      RETURN_IF_ERROR(device_->Copy(Stream::kCompute, place + at, pattern,
                                    std::min(kPatternBytes, bytes - at)));
    }
    operands_.push_back(place);
    place += RoundUp(bytes, kBlockBytes);
  }
  return absl::OkStatus();
}

std::byte* KernelBench::Workspace(const StepSignature& signature) const {
  return memory_.data() + BytesFor(signature, 0);
}

absl::StatusOr<Measurement> KernelBench::Measure(const StepSignature& signature,
                                                 const Engine& engine, double hopeless_seconds,
                                                 const std::function<bool()>& go_on) {
  Measurement measurement = {.batch = BatchOf(signature), .engine = engine};
  absl::StatusOr<std::unique_ptr<Kernel>> kernel =
      device_->backend().MakeKernel(signature, engine.id);
  if (!kernel.ok()) {
    if (absl::IsResourceExhausted(kernel.status())) return kernel.status();
    measurement.failure = std::string(kernel.status().message());
    return measurement;
  }
  const KernelArgs args = {.operands = operands_,
                           .workspace = Workspace(signature),
                           .workspace_bytes = engine.workspace_bytes};
  const absl::StatusOr<KernelTime> time = timer_.Time(**kernel, args, hopeless_seconds, go_on);
  if (absl::IsCancelled(time.status())) return time.status();
  if (!time.ok()) {
    measurement.failure = std::string(time.status().message());
    return measurement;
  }
  measurement.median_seconds = time->median_seconds;
  measurement.spread = time->spread;
  measurement.repeats = time->samples;
  return measurement;
}

absl::StatusOr<double> KernelBench::MedianSeconds(const StepSignature& signature,
                                                  const Configuration& configuration) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                   MakeDividedKernel(device_->backend(), signature, configuration.parts,
                                     configuration.workspace_bytes));
  const KernelArgs args = {.operands = operands_,
                           .workspace = Workspace(signature),
                           .workspace_bytes = configuration.workspace_bytes};
  ASSIGN_OR_RETURN(const KernelTime time, timer_.Time(*kernel, args));
  return time.median_seconds;
}

}  // namespace neap
