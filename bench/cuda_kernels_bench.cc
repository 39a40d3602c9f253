// The CUDA kernels on the machine's GPU: memory-bound layers at ResNet-50's and MobileNetV2's
// sizes, and norms of transformers, in bytes per second, every engine of a 3x3 convolution, and all
// steps of a ResNet-50 iteration, timed one by one and summed.
//
//   build/dev/bench/cuda_kernels_bench --benchmark_filter='^layer_norm.*bf16 nhwc'
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cuda/cuda_device.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/nets/residual/resnet.h"

namespace neap {
namespace {

constexpr int64_t kBatch = 128;
constexpr int kRepeats = 10;

// A GPU with an arena that holds all operands of a step. The arena begins with an iteration's
// scalars.
class Bench {
 public:
  static absl::StatusOr<Bench> Open(int64_t arena_bytes) {
    Bench bench;
    ASSIGN_OR_RETURN(bench.gpu_, CudaDevice::Open(0));
    ASSIGN_OR_RETURN(bench.arena_, bench.gpu_->Allocate(MemoryKind::kDevice, arena_bytes));
    ASSIGN_OR_RETURN(const Buffer host, bench.gpu_->Allocate(MemoryKind::kPinnedHost, kPiece));
    FillWithNumbers<float>(host);
    ASSIGN_OR_RETURN(bench.numbers_, bench.Upload(host));
    FillWithNumbers<Fp16>(host);
    ASSIGN_OR_RETURN(bench.fp16_numbers_, bench.Upload(host));
    FillWithNumbers<Bf16>(host);
    ASSIGN_OR_RETURN(bench.bf16_numbers_, bench.Upload(host));
    std::memset(host.data(), 0, static_cast<size_t>(kPiece));
    ASSIGN_OR_RETURN(bench.zeros_, bench.Upload(host));
    const IterationScalars scalars = {.learning_rate = 1e-6F, .step = 1, .seed = 1};
    std::memcpy(host.data(), &scalars, sizeof(scalars));
    RETURN_IF_ERROR(bench.gpu_->Copy(Stream::kCompute, bench.arena_.data(), host.data(),
                                     static_cast<int64_t>(sizeof(scalars))));
    RETURN_IF_ERROR(bench.gpu_->Synchronize());
    return bench;
  }

  Backend& backend() { return gpu_->backend(); }
  const DeviceDescription& description() const { return gpu_->description(); }

  // Seconds per run.
  absl::StatusOr<double> Time(const StepSignature& signature, const Engine& engine) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                     backend().MakeKernel(signature, engine.id));
    int64_t used = kKiB;
    std::vector<void*> operands;
    for (const OperandSpec& operand : signature.operands) {
      operands.push_back(operand.operand.slot == Slot::kIteration ? arena_.data()
                                                                  : arena_.data() + used);
      used += RoundUp(operand.tensor.size_bytes(), kKiB);
    }
    const KernelArgs args = {operands, arena_.data() + used, engine.workspace_bytes};
    if (used + engine.workspace_bytes > arena_.size_bytes())
      return absl::ResourceExhaustedError("arena");
    for (size_t i = 0; i < operands.size(); ++i)
      RETURN_IF_ERROR(Fill(static_cast<std::byte*>(operands[i]), signature.operands[i]));
    for (int i = 0; i < 2; ++i) RETURN_IF_ERROR(kernel->Run(args));
    RETURN_IF_ERROR(gpu_->Synchronize());
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRepeats; ++i) RETURN_IF_ERROR(kernel->Run(args));
    RETURN_IF_ERROR(gpu_->Synchronize());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
           kRepeats;
  }

 private:
  static constexpr int64_t kPiece = 64 * kMiB;

  // Numbers in [0.01, 1.01).
  template <typename T>
  static void FillWithNumbers(const Buffer& host) {
    std::mt19937 random(1);
    T* const values = reinterpret_cast<T*>(host.data());
    for (size_t i = 0; i < kPiece / sizeof(T); ++i)
      values[i] = T(static_cast<float>(random()) * 0x1p-32F + 0.01F);
  }

  // The GPU's copy of a piece.
  absl::StatusOr<Buffer> Upload(const Buffer& host) {
    ASSIGN_OR_RETURN(Buffer piece, gpu_->Allocate(MemoryKind::kDevice, kPiece));
    RETURN_IF_ERROR(gpu_->Copy(Stream::kCompute, piece.data(), host.data(), kPiece));
    RETURN_IF_ERROR(gpu_->Synchronize());
    return piece;
  }

  // Labels, indices and masks are 0, and so are the values of a scaled loss, which would otherwise
  // skip updates.
  const Buffer& ValuesFor(const OperandSpec& operand) const {
    const DType dtype = operand.tensor.dtype;
    if (dtype == DType::kUInt8 || dtype == DType::kInt32 ||
        operand.operand.slot == Slot::kLossScale)
      return zeros_;
    if (dtype == DType::kFp16) return fp16_numbers_;
    return dtype == DType::kBf16 ? bf16_numbers_ : numbers_;
  }

  // Fills an operand with random numbers of its type: zeros would allow higher GPU clocks than real
  // data, and results of earlier steps may be infinite. The iteration's scalars stay.
  absl::Status Fill(std::byte* to, const OperandSpec& operand) {
    if (operand.operand.slot == Slot::kIteration) return absl::OkStatus();
    const Buffer& values = ValuesFor(operand);
    for (int64_t at = 0; at < operand.tensor.size_bytes(); at += kPiece) {
      const int64_t bytes = std::min(kPiece, operand.tensor.size_bytes() - at);
      RETURN_IF_ERROR(gpu_->Copy(Stream::kCompute, to + at, values.data(), bytes));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<CudaDevice> gpu_;
  Buffer arena_;
  Buffer numbers_, fp16_numbers_, bf16_numbers_, zeros_;  // a piece each, on the GPU
};

// One instance per process, because opening a GPU takes longer than most benchmarks.
absl::StatusOr<Bench>& SharedBench() {
  static absl::StatusOr<Bench> bench = Bench::Open(12 * kGiB);
  return bench;
}

StepSignature SignatureOfStep(const Layer& layer, const std::vector<TensorSpec>& inputs,
                              size_t step) {
  const LayerSpec spec = layer.Specify({.inputs = inputs}).value();
  return SignatureOf(spec.steps[step], layer, spec, {.inputs = inputs});
}

int64_t OperandBytes(const StepSignature& signature) {
  int64_t bytes = 0;
  for (const OperandSpec& operand : signature.operands) bytes += operand.tensor.size_bytes();
  return bytes;
}

void Report(benchmark::State& state, const absl::StatusOr<double>& seconds) {
  if (!seconds.ok()) {
    state.SkipWithError(std::string(seconds.status().message()).c_str());
    return;
  }
  state.SetIterationTime(*seconds);
}

// GB/s, counting every operand once. Batch norm has to read x twice in forward, and x and dy twice
// in backward, so it can reach at most 2/3 and 3/5 of the memory's rate.
void MemoryBound(benchmark::State& state, const Layer& layer, const Shape& shape, size_t inputs,
                 size_t step, DType dtype, Layout layout) {
  absl::StatusOr<Bench>& bench = SharedBench();
  if (!bench.ok()) return state.SkipWithError(std::string(bench.status().message()).c_str());
  const std::vector<TensorSpec> specs(inputs, TensorSpec{shape, dtype, layout});
  const StepSignature signature = SignatureOfStep(layer, specs, step);
  const Engine engine = bench->backend().Engines(signature).value().front();
  for (auto _ : state) Report(state, bench->Time(signature, engine));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * OperandBytes(signature));
}

// Backward of a layer norm that adds the gradient of the residual sum: x, dy and the addend are
// read once, and dx is written.
void LayerNormAddend(benchmark::State& state, const Shape& shape, DType dtype) {
  absl::StatusOr<Bench>& bench = SharedBench();
  if (!bench.ok()) return state.SkipWithError(std::string(bench.status().message()).c_str());
  const TensorSpec x = {shape, dtype, Layout::kChannelsLast};
  StepSignature signature = SignatureOfStep(LayerNorm{}, {x}, 1);
  signature.operands.push_back({operands::Addend(), x, Access::kRead});
  const Engine engine = bench->backend().Engines(signature).value().front();
  for (auto _ : state) Report(state, bench->Time(signature, engine));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * OperandBytes(signature));
}

void ConvolutionEngines(benchmark::State& state, DType dtype, Layout layout, size_t step) {
  absl::StatusOr<Bench>& bench = SharedBench();
  if (!bench.ok()) return state.SkipWithError(std::string(bench.status().message()).c_str());
  const Layer layer = Convolution{.out_channels = 128, .kernel = 3, .padding = 1, .bias = false};
  const StepSignature signature =
      SignatureOfStep(layer, {{{kBatch, 128, 28, 28}, dtype, layout}}, step);
  const std::vector<Engine> engines = bench->backend().Engines(signature).value();
  const size_t which = static_cast<size_t>(state.range(0));
  if (which >= engines.size()) return state.SkipWithError("no more engines");
  state.SetLabel(absl::StrCat(engines[which].id, " ", engines[which].workspace_bytes, " bytes",
                              engines[which].deterministic ? "" : " nondeterministic"));
  for (auto _ : state) Report(state, bench->Time(signature, engines[which]));
}

std::string KeyOf(const StepSignature& signature) {
  std::string key =
      absl::StrCat(std::string(signature.layer.type()), std::string(Name(signature.phase)));
  for (const OperandSpec& operand : signature.operands) {
    absl::StrAppend(&key, ToString(operand.operand), operand.tensor.ToString());
  }
  return key;
}

// The fastest of the first `most` deterministic engines.
absl::StatusOr<double> BestTime(Bench& bench, const StepSignature& signature, int most) {
  ASSIGN_OR_RETURN(const std::vector<Engine> engines, bench.backend().Engines(signature));
  absl::StatusOr<double> best = absl::NotFoundError("no engine");
  for (const Engine& engine : engines) {
    if (!engine.deterministic) continue;
    const absl::StatusOr<double> seconds = bench.Time(signature, engine);
    if (seconds.ok() && (!best.ok() || *seconds < *best)) best = seconds;
    if (--most == 0) break;
  }
  return best;
}

// Milliseconds per kind of step of one iteration, and the images per second without gaps between
// the steps.
void ResNet50Steps(benchmark::State& state, DType dtype, Layout layout, int most_engines) {
  absl::StatusOr<Bench>& bench = SharedBench();
  if (!bench.ok()) return state.SkipWithError(std::string(bench.status().message()).c_str());
  const Graph graph = nets::ResNet({.batch = kBatch, .dtype = dtype, .layout = layout});
  const Program program = Lower(graph, {}, bench->description()).value();
  std::map<std::string, double> seconds_of, by_kind;
  for (auto _ : state) {
    double total = 0;
    for (const Step& step : program.steps) {
      const StepSignature signature = program.Signature(step);
      const std::string key = KeyOf(signature);
      if (seconds_of.find(key) == seconds_of.end()) {
        const absl::StatusOr<double> seconds = BestTime(*bench, signature, most_engines);
        if (!seconds.ok())
          return state.SkipWithError(std::string(seconds.status().message()).c_str());
        seconds_of[key] = *seconds;
      }
      total += seconds_of[key];
      by_kind[absl::StrCat(std::string(program.StepType(step)), "_",
                           std::string(Name(step.phase)))] += seconds_of[key] * 1e3;
    }
    state.SetIterationTime(total);
    state.counters["images/s"] = static_cast<double>(kBatch) / total;
  }
  for (const auto& [kind, ms] : by_kind) state.counters[kind] = ms;
}

// The steps of the layer, by the first engine of each.
void RegisterMemoryBound(const std::string& name, const Layer& layer, const Shape& shape,
                         size_t inputs = 1) {
  const std::vector<TensorSpec> specs(inputs, TensorSpec{shape});
  const LayerSpec spec = layer.Specify({.inputs = specs}).value();
  for (auto [dtype, layout] : {std::pair(DType::kFp32, Layout::kChannelsFirst),
                               std::pair(DType::kFp32, Layout::kChannelsLast),
                               std::pair(DType::kBf16, Layout::kChannelsFirst),
                               std::pair(DType::kBf16, Layout::kChannelsLast)}) {
    for (size_t step = 0; step < spec.steps.size(); ++step) {
      const std::string full =
          absl::StrCat(name, " ", shape.ToString(), " ", std::string(Name(dtype)), " ",
                       std::string(Name(layout)), " ", std::string(Name(spec.steps[step].phase)));
      benchmark::RegisterBenchmark(full.c_str(), MemoryBound, layer, shape, inputs, step, dtype,
                                   layout)
          ->UseManualTime()
          ->Iterations(3);
    }
  }
}

void RegisterLayerNorm(const Shape& shape) {
  RegisterMemoryBound("layer_norm", LayerNorm{}, shape);
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    const std::string name = absl::StrCat("layer_norm_addend ", shape.ToString(), " ",
                                          std::string(Name(dtype)), " nhwc backward_data");
    benchmark::RegisterBenchmark(name.c_str(), LayerNormAddend, shape, dtype)
        ->UseManualTime()
        ->Iterations(3);
  }
}

// A convolution that treats every channel by itself.
Convolution Depthwise(int64_t channels, int64_t stride) {
  return {.out_channels = channels,
          .kernel = 3,
          .stride = stride,
          .padding = 1,
          .groups = channels,
          .bias = false};
}

const bool kRegistered = [] {
  RegisterMemoryBound("batch_norm", BatchNorm{}, {kBatch, 64, 112, 112});
  RegisterMemoryBound("batch_norm", BatchNorm{}, {kBatch, 256, 56, 56});
  RegisterMemoryBound("batch_norm", BatchNorm{}, {kBatch, 512, 14, 14});
  RegisterMemoryBound("batch_norm", BatchNorm{}, {kBatch, 2048, 7, 7});
  RegisterMemoryBound("batch_norm_clip", NormPass{.activation = Clip{0, 6}}, {kBatch, 144, 56, 56});
  RegisterMemoryBound("batch_norm_silu", NormPass{.activation = Silu{}}, {kBatch, 144, 56, 56});
  RegisterLayerNorm({kBatch, 768, 197});    // ViT-B/16
  RegisterLayerNorm({16, 768, 1024});       // GPT-2
  RegisterLayerNorm({kBatch, 96, 56, 56});  // ConvNeXt-T
  RegisterLayerNorm({kBatch, 192, 28, 28});
  RegisterLayerNorm({kBatch, 384, 14, 14});
  RegisterLayerNorm({kBatch, 768, 7, 7});
  RegisterMemoryBound("depthwise", Depthwise(144, 1), {kBatch, 144, 56, 56});
  RegisterMemoryBound("depthwise_stride_2", Depthwise(96, 2), {kBatch, 96, 112, 112});
  RegisterMemoryBound("relu", Relu{}, {kBatch, 64, 112, 112});
  RegisterMemoryBound("gelu", Gelu{}, {kBatch, 64, 112, 112});
  RegisterMemoryBound("prelu", Prelu{.slopes = 64}, {kBatch, 64, 112, 112});
  RegisterMemoryBound("add", Add{}, {kBatch, 256, 56, 56}, 2);
  RegisterMemoryBound("max_pool", MaxPool{.kernel = 3, .stride = 2, .padding = 1},
                      {kBatch, 64, 112, 112});
  RegisterMemoryBound("global_average_pool", GlobalAveragePool{}, {kBatch, 2048, 7, 7});
  for (const Resize::Mode mode : {Resize::Mode::kNearest, Resize::Mode::kLinear}) {
    const std::string name = absl::StrCat("upsample_2_", std::string(Name(mode)));
    RegisterMemoryBound(name, Resize{.scales = {2}, .mode = mode}, {kBatch, 64, 56, 56});
    RegisterMemoryBound(name, Resize{.scales = {2}, .mode = mode}, {2, 64, 64, 64, 64});
  }
  RegisterMemoryBound("adaptive_average_pool", AdaptiveAveragePool{.size = 7},
                      {kBatch, 512, 15, 15});
  RegisterMemoryBound("pixel_shuffle", PixelShuffle{}, {kBatch, 256, 56, 56});
  for (auto [dtype, layout] : {std::pair(DType::kFp32, Layout::kChannelsFirst),
                               std::pair(DType::kTf32, Layout::kChannelsLast),
                               std::pair(DType::kBf16, Layout::kChannelsLast)}) {
    const std::string of = absl::StrCat(std::string(Name(dtype)), " ", std::string(Name(layout)));
    for (size_t step = 0; step < 3; ++step) {
      benchmark::RegisterBenchmark(absl::StrCat("conv3x3 ", of, " step ", step).c_str(),
                                   ConvolutionEngines, dtype, layout, step)
          ->DenseRange(0, 7)
          ->UseManualTime()
          ->Iterations(1);
    }
    for (int most : {1, 8}) {
      benchmark::RegisterBenchmark(absl::StrCat("resnet50 ", of, " best of ", most).c_str(),
                                   ResNet50Steps, dtype, layout, most)
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace neap
