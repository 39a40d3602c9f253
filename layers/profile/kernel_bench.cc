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
// Sets of operands that kernels take in turn. Their number limits the runs of a sample. Small
// operands stay in the cache, in part.
constexpr int64_t kMaxSets = 16;

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

int64_t BlockBytes(const OperandSpec& operand) {
  return RoundUp(operand.tensor.size_bytes(), kBlockBytes);
}

int64_t OperandBytes(const StepSignature& signature) {
  int64_t bytes = 0;
  for (const OperandSpec& operand : signature.operands) bytes += BlockBytes(operand);
  return bytes;
}

// Whether the step before has written the operand.
bool IsInCache(const StepSignature& signature, const OperandSpec& operand) {
  switch (operand.operand.slot) {
    case Slot::kInput:
      return signature.phase == Phase::kForward && operand.operand.index == 0;
    case Slot::kOutputGrad:
    case Slot::kLinearGrad:
      return true;
    default:
      return false;
  }
}

int64_t BytesElsewhere(const StepSignature& signature) {
  int64_t bytes = 0;
  for (const OperandSpec& operand : signature.operands)
    bytes += IsInCache(signature, operand) ? 0 : BlockBytes(operand);
  return bytes;
}

int64_t CacheBytes(const DeviceDescription& device) {
  return device.gpu.has_value() ? device.gpu->l2_cache_bytes : 0;
}

// The number of sets of so many bytes with which none is still in the cache at its next turn.
int64_t SetsBeyondCache(int64_t bytes, int64_t cache_bytes) {
  if (bytes == 0 || bytes >= 2 * cache_bytes) return 1;
  return std::min(1 + (cache_bytes + bytes - 1) / bytes, kMaxSets);
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

absl::Status KernelBench::Fill(const OperandSpec& operand, std::byte* place) {
  const std::byte* const pattern = PatternFor(operand);
  const int64_t bytes = operand.tensor.size_bytes();
  for (int64_t at = 0; at < bytes; at += kPatternBytes) {
    RETURN_IF_ERROR(
        device_->Copy(Stream::kCompute, place + at, pattern, std::min(kPatternBytes, bytes - at)));
  }
  return absl::OkStatus();
}

absl::Status KernelBench::Place(const StepSignature& signature) {
  in_turn_.clear();
  Operands first;
  std::byte* place = memory_.data() + kPatternsBytes;
  for (const OperandSpec& operand : signature.operands) {
    RETURN_IF_ERROR(Fill(operand, place));
    first.places.push_back(place);
    place += BlockBytes(operand);
  }
  in_turn_.push_back(first);
  const int64_t bytes = BytesElsewhere(signature);
  const int64_t sets = SetsBeyondCache(bytes, CacheBytes(device_->description()));
  std::byte* begin = memory_.data() + memory_.size_bytes() / kBlockBytes * kBlockBytes;
  for (int64_t i = 1; i < sets && begin - bytes >= place; ++i) {
    begin -= bytes;
    Operands other = {.places = first.places, .begin = begin};
    std::byte* next = begin;
    for (size_t k = 0; k < signature.operands.size(); ++k) {
      if (IsInCache(signature, signature.operands[k])) continue;
      other.places[k] = next;
      next += BlockBytes(signature.operands[k]);
    }
    RETURN_IF_ERROR(FillElsewhere(signature, other));
    in_turn_.push_back(std::move(other));
  }
  return absl::OkStatus();
}

absl::Status KernelBench::FillElsewhere(const StepSignature& signature, const Operands& operands) {
  for (size_t k = 0; k < signature.operands.size(); ++k) {
    if (IsInCache(signature, signature.operands[k])) continue;
    RETURN_IF_ERROR(Fill(signature.operands[k], static_cast<std::byte*>(operands.places[k])));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<KernelArgs>> KernelBench::ArgsInTurn(const StepSignature& signature,
                                                                int64_t workspace_bytes) {
  std::byte* const workspace = Workspace(signature);
  std::vector<KernelArgs> in_turn;
  for (Operands& operands : in_turn_) {
    const bool is_first = in_turn.empty();
    if (!is_first && operands.begin < workspace + workspace_bytes) {
      operands.is_filled = false;
      continue;
    }
    if (!operands.is_filled) RETURN_IF_ERROR(FillElsewhere(signature, operands));
    operands.is_filled = true;
    in_turn.push_back(
        {.operands = operands.places, .workspace = workspace, .workspace_bytes = workspace_bytes});
  }
  return in_turn;
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
  ASSIGN_OR_RETURN(const std::vector<KernelArgs> in_turn,
                   ArgsInTurn(signature, engine.workspace_bytes));
  const absl::StatusOr<KernelTime> time = timer_.Time(**kernel, in_turn, hopeless_seconds, go_on);
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
  ASSIGN_OR_RETURN(const std::vector<KernelArgs> in_turn,
                   ArgsInTurn(signature, configuration.workspace_bytes));
  ASSIGN_OR_RETURN(const KernelTime time, timer_.Time(*kernel, in_turn));
  return time.median_seconds;
}

}  // namespace neap
