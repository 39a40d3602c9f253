#include "tests/layers/harness.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/step/specify.h"
#include "neap/core/step/step_signature.h"

// AddressSanitizer's functions; null in a program without it.
extern "C" {
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* begin, size_t bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* begin, size_t bytes);
}

namespace neap::testing {
namespace {

using namespace operands;

constexpr int64_t kAlignment = 256;
constexpr int64_t kCanaryBytes = 256;
constexpr std::byte kCanary{0xA5};
constexpr std::byte kPoison{0xFF};  // NaN in every float type

int64_t CellBytes(const TensorSpec& spec) { return SizeOf(spec.dtype); }

// A 16-bit type is made of floats. Values that a float represents are thus rounded once.
template <typename T>
using Arithmetic = std::conditional_t<std::is_class_v<T>, float, T>;

template <typename T>
void Store(std::byte* at, double value) {
  const T converted = static_cast<T>(static_cast<Arithmetic<T>>(value));
  std::memcpy(at, &converted, sizeof(T));
}

template <typename T>
double Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(static_cast<Arithmetic<T>>(value));
}

void StoreAs(DType dtype, std::byte* at, double value) {
  if (dtype == DType::kUInt8) return Store<uint8_t>(at, value);
  if (dtype == DType::kInt32) return Store<int32_t>(at, value);
  if (dtype == DType::kFp16) return Store<Fp16>(at, value);
  if (dtype == DType::kBf16) return Store<Bf16>(at, value);
  Store<float>(at, value);
}

double LoadAs(DType dtype, const std::byte* at) {
  if (dtype == DType::kUInt8) return Load<uint8_t>(at);
  if (dtype == DType::kInt32) return Load<int32_t>(at);
  if (dtype == DType::kFp16) return Load<Fp16>(at);
  if (dtype == DType::kBf16) return Load<Bf16>(at);
  return Load<float>(at);
}

std::vector<std::byte> IterationBytes(const std::vector<double>& values) {
  const IterationScalars scalars = {.learning_rate = static_cast<float>(values.at(0)),
                                    .step = static_cast<uint32_t>(values.at(1)),
                                    .seed = static_cast<uint64_t>(values.at(2))};
  std::vector<std::byte> bytes(sizeof(scalars));
  std::memcpy(bytes.data(), &scalars, sizeof(scalars));
  return bytes;
}

// A block of device memory followed by a canary, which detects writes beyond the block. With
// AddressSanitizer, a read beyond the block of the host's memory is an error too.
class GuardedBlock {
 public:
  GuardedBlock(const DeviceAccess& access, std::vector<std::byte> contents)
      : access_(access), contents_(std::move(contents)) {
    std::vector<std::byte> bytes = contents_;
    bytes.resize(contents_.size() + kCanaryBytes, kCanary);
    const int64_t size = static_cast<int64_t>(bytes.size());
    device_ = access_.allocate(RoundUp(size, kAlignment));
    access_.copy_in(device_, bytes.data(), size);
    Forbid();
  }
  ~GuardedBlock() {
    Allow();
    access_.release(device_);
  }
  GuardedBlock(const GuardedBlock&) = delete;
  GuardedBlock& operator=(const GuardedBlock&) = delete;

  void* device() const { return device_; }
  const std::vector<std::byte>& contents() const { return contents_; }
  // The current bytes, including the canary.
  std::vector<std::byte> Read() const {
    std::vector<std::byte> bytes(contents_.size() + kCanaryBytes);
    Allow();
    access_.copy_out(bytes.data(), device_, static_cast<int64_t>(bytes.size()));
    Forbid();
    return bytes;
  }

 private:
  std::byte* canary() const { return static_cast<std::byte*>(device_) + contents_.size(); }
  void Forbid() const {
    if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(canary(), kCanaryBytes);
  }
  void Allow() const {
    if (__asan_unpoison_memory_region != nullptr)
      __asan_unpoison_memory_region(canary(), kCanaryBytes);
  }

  const DeviceAccess& access_;
  std::vector<std::byte> contents_;
  void* device_ = nullptr;
};
using Blocks = std::vector<std::shared_ptr<GuardedBlock>>;

bool CanaryLives(const std::vector<std::byte>& bytes) {
  return std::all_of(bytes.end() - kCanaryBytes, bytes.end(),
                     [](std::byte b) { return b == kCanary; });
}

bool Unchanged(const GuardedBlock& block, const std::vector<std::byte>& now) {
  return std::equal(block.contents().begin(), block.contents().end(), now.begin());
}

std::optional<Operand> SharesWith(Operand operand, const RunOptions& options) {
  for (const auto& [written, read] : options.in_place) {
    if (written == operand) return read;
  }
  return std::nullopt;
}

bool IsOverwritten(Operand operand, const RunOptions& options) {
  return std::any_of(options.in_place.begin(), options.in_place.end(),
                     [&](const auto& pair) { return pair.second == operand; });
}

absl::StatusOr<std::vector<std::byte>> InitialBytes(const OperandSpec& spec, const Values& given) {
  if (spec.access == Access::kWrite) {
    return std::vector<std::byte>(static_cast<size_t>(spec.tensor.size_bytes()), kPoison);
  }
  const auto value = given.find(spec.operand);
  if (value == given.end()) {
    return absl::InvalidArgumentError(absl::StrCat("no value given for ", ToString(spec.operand)));
  }
  if (spec.operand.slot == Slot::kIteration) return IterationBytes(value->second);
  return ToBytes(spec.tensor, value->second);
}

absl::StatusOr<Blocks> MakeBlocks(const DeviceAccess& access, const StepSignature& signature,
                                  const Values& given, const RunOptions& options) {
  Blocks blocks(signature.operands.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (SharesWith(signature.operands[i].operand, options)) continue;
    ASSIGN_OR_RETURN(std::vector<std::byte> bytes, InitialBytes(signature.operands[i], given));
    blocks[i] = std::make_shared<GuardedBlock>(access, std::move(bytes));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i]) continue;
    const Operand read = *SharesWith(signature.operands[i].operand, options);
    blocks[i] = blocks[signature.Find(read).value()];
  }
  return blocks;
}

absl::StatusOr<Values> Collect(const StepSignature& signature, const Blocks& blocks,
                               const RunOptions& options) {
  Values results;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const OperandSpec& spec = signature.operands[i];
    const std::vector<std::byte> now = blocks[i]->Read();
    if (!CanaryLives(now)) {
      return absl::InternalError(absl::StrCat("wrote beyond ", ToString(spec.operand)));
    }
    if (spec.access != Access::kRead) {
      results[spec.operand] = FromBytes(spec.tensor, now.data());
    } else if (!IsOverwritten(spec.operand, options) && !Unchanged(*blocks[i], now)) {
      return absl::InternalError(absl::StrCat("changed ", ToString(spec.operand)));
    }
  }
  return results;
}

absl::StatusOr<Engine> ChooseEngine(Backend& backend, const StepSignature& signature,
                                    const std::string& id) {
  if (!id.empty()) return backend.Find(signature, id);
  ASSIGN_OR_RETURN(const std::vector<Engine> engines, backend.Engines(signature));
  if (engines.empty()) return absl::InternalError("no engines");
  return engines.front();
}

// Calls `visit` with the index of each of the first `count` elements, in logical order, and the
// offset of its bytes: what MemoryIndex() gives, without its divisions.
template <typename Visit>
void ForEachCell(const TensorSpec& spec, size_t count, const Visit& visit) {
  const int64_t bytes = CellBytes(spec);
  if (spec.shape.spatial_axes() == 0 || spec.layout == Layout::kChannelsFirst) {
    for (size_t i = 0; i < count; ++i) visit(i, static_cast<int64_t>(i) * bytes);
    return;
  }
  const int64_t channels = spec.shape.c(), pixels = spec.shape.positions();
  size_t i = 0;
  for (int64_t image = 0; i < count; ++image) {
    for (int64_t channel = 0; channel < channels; ++channel) {
      for (int64_t pixel = 0; pixel < pixels && i < count; ++pixel, ++i)
        visit(i, ((image * pixels + pixel) * channels + channel) * bytes);
    }
  }
}

}  // namespace

DeviceAccess HostAccess() {
  return {
      .allocate =
          [](int64_t bytes) { return std::aligned_alloc(kAlignment, static_cast<size_t>(bytes)); },
      .release = [](void* block) { std::free(block); },
      .copy_in = [](void* to, const void* from,
                    int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); },
      .copy_out = [](void* to, const void* from,
                     int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); }};
}

int64_t MemoryIndex(const TensorSpec& spec, int64_t logical) {
  const Shape& shape = spec.shape;
  if (shape.spatial_axes() == 0 || spec.layout == Layout::kChannelsFirst) return logical;
  const int64_t position = logical % shape.positions();
  const int64_t c = logical / shape.positions() % shape.c();
  const int64_t n = logical / (shape.positions() * shape.c());
  return (n * shape.positions() + position) * shape.c() + c;
}

std::vector<std::byte> ToBytes(const TensorSpec& spec, const std::vector<double>& values) {
  std::vector<std::byte> bytes(static_cast<size_t>(spec.size_bytes()));
  ForEachCell(spec, values.size(),
              [&](size_t i, int64_t at) { StoreAs(spec.dtype, bytes.data() + at, values[i]); });
  return bytes;
}

std::vector<double> FromBytes(const TensorSpec& spec, const std::byte* bytes) {
  std::vector<double> values(static_cast<size_t>(spec.elements()));
  ForEachCell(spec, values.size(),
              [&](size_t i, int64_t at) { values[i] = LoadAs(spec.dtype, bytes + at); });
  return values;
}

std::vector<double> Rounded(const TensorSpec& spec, const std::vector<double>& values) {
  return FromBytes(spec, ToBytes(spec, values).data());
}

StepSignature SignatureOf(const StepSpec& step, const SignatureOptions& options) {
  StepSpec run = step;
  if (options.rerun) {
    if (!run.rerun_reads.empty()) run.reads = run.rerun_reads;
    std::erase_if(run.writes, [&](Operand operand) {
      return operand.slot == Slot::kState ||
             std::find(run.reads.begin(), run.reads.end(), operand) != run.reads.end();
    });
    run.accumulates.clear();
  }
  StepSignature signature = neap::SignatureOf(run, options.layer, options.spec,
                                              {.inputs = options.inputs, .mode = options.mode});
  signature.rerun = options.rerun;
  signature.layer_seed = options.layer_seed;
  for (OperandSpec& operand : signature.operands) {
    if (options.accumulate && operand.operand.slot == Slot::kInputGrad)
      operand.access = Access::kAccumulate;
  }
  return signature;
}

std::vector<Optimizer> SomeOptimizers() {
  return {{},
          {.momentum = 0, .weight_decay = 0.01F, .average_decay = 0.25F},
          {.momentum = 0.5F, .weight_decay = 0.1F},
          {.momentum = 0.5F, .weight_decay = 0.1F, .nesterov = true, .clip_norm = 0.5F},
          {.rule = Optimizer::Rule::kAdamW},
          {.rule = Optimizer::Rule::kAdamW,
           .weight_decay = 0.1F,
           .beta1 = 0.5F,
           .beta2 = 0.75F,
           .epsilon = 0.125F,
           .clip_norm = 0.5F,
           .average_decay = 0.25F}};
}

StepSignature UpdateSignature(const Layer& layer, const std::vector<TensorSpec>& params,
                              const Optimizer& optimizer) {
  StepSignature signature = {.layer = layer, .phase = Phase::kUpdate, .optimizer = optimizer};
  signature.operands.push_back(
      {Iteration(), {.shape = {4}, .dtype = DType::kInt32}, Access::kRead});
  for (size_t k = 0; k < params.size(); ++k) {
    const int i = static_cast<int>(k);
    const TensorSpec full = InFullPrecision(params[k]);
    const bool has_master = full != params[k];
    const auto add = [&](Operand operand, const TensorSpec& spec, Access access) {
      signature.operands.push_back({operand, spec, access});
    };
    add(ParamGrad(i), full, Access::kRead);
    add(Param(i), params[k], has_master ? Access::kWrite : Access::kAccumulate);
    if (has_master) add(Master(i), full, Access::kAccumulate);
    if (optimizer.keeps_moment()) add(Moment(i), full, Access::kAccumulate);
    if (optimizer.keeps_second_moment()) add(SecondMoment(i), full, Access::kAccumulate);
    if (optimizer.keeps_average()) add(Average(i), full, Access::kAccumulate);
  }
  if (optimizer.clips())
    signature.operands.push_back({GradientNorm(), VectorSpec(1), Access::kRead});
  return signature;
}

absl::StatusOr<Values> RunStep(Backend& backend, const DeviceAccess& access,
                               const StepSignature& signature, const Values& given,
                               const RunOptions& options) {
  ASSIGN_OR_RETURN(const Engine engine, ChooseEngine(backend, signature, options.engine));
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, backend.MakeKernel(signature, engine.id));
  ASSIGN_OR_RETURN(const Blocks blocks, MakeBlocks(access, signature, given, options));
  const GuardedBlock workspace(
      access, std::vector<std::byte>(static_cast<size_t>(engine.workspace_bytes), kPoison));
  std::vector<void*> pointers;
  for (const auto& block : blocks) pointers.push_back(block->device());
  RETURN_IF_ERROR(kernel->Run({.operands = pointers,
                               .workspace = workspace.device(),
                               .workspace_bytes = engine.workspace_bytes}));
  if (!CanaryLives(workspace.Read())) return absl::InternalError("wrote beyond the workspace");
  return Collect(signature, blocks, options);
}

}  // namespace neap::testing
