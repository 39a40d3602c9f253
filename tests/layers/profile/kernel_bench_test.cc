#include "neap/layers/profile/kernel_bench.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/base/float16.h"
#include "neap/core/base/units.h"
#include "neap/core/device/gpu_properties.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/forwarding_device.h"
#include "tests/layers/profile/scripted_device.h"

namespace neap {
namespace {

using doctest::Approx;

// 8 images of 4 x 8 x 8, and 16 x 8 x 8 results.
StepSignature SmallStep(DType dtype = DType::kFp32, Phase phase = Phase::kForward) {
  const Convolution layer = {.out_channels = 16, .kernel = 3, .padding = 1, .bias = false};
  return SignatureOf(layer, phase, {{{8, 4, 8, 8}, dtype}}).value();
}

constexpr int64_t kPatterns = KernelBench::kOwnBytes;

TEST_CASE("a bench has room for numbers, each operand from a block of its own, and workspace") {
  // 2048 inputs, 8192 results and a weight of 576 numbers, each of 4 bytes: 8, 32 and 3 blocks.
  const int64_t operands = (8 + 32 + 3) * kKiB;
  CHECK(KernelBench::BytesFor(SmallStep(), 0) == kPatterns + operands);
  CHECK(KernelBench::BytesFor(SmallStep(), 1) == kPatterns + operands + kKiB);
  CHECK(KernelBench::BytesFor(SmallStep(), 5 * kKiB) == kPatterns + operands + 5 * kKiB);
  const std::unique_ptr<CpuDevice> device = CpuDevice::Open().value();
  const KernelBench exact =
      KernelBench::Create(*device, KernelBench::BytesFor(SmallStep(), 5 * kKiB), 1).value();
  CHECK(exact.WorkspaceBytes(SmallStep()) == 5 * kKiB);
  const KernelBench small = KernelBench::Create(*device, kPatterns + operands - kKiB, 1).value();
  CHECK(small.WorkspaceBytes(SmallStep()) == -kKiB);
}

// A device with one kernel that shows its arguments, and takes no time for that.
class ShownDevice final : public ForwardingDevice, public Backend {
 public:
  using Show = std::function<void(const KernelArgs&)>;
  ShownDevice(Device& device, Show show) : ForwardingDevice(device), show_(std::move(show)) {}
  absl::StatusOr<double> ElapsedUs(const Event& /*earlier*/, const Event& /*later*/) override {
    return 50;
  }
  Backend& backend() override { return *this; }
  std::string Versions() const override { return ""; }
  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& /*signature*/) override {
    return std::vector<Engine>{{.id = "shows"}};
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& /*signature*/,
                                                     std::string_view engine) override {
    if (engine == "no memory") return absl::ResourceExhaustedError("no memory for its code");
    if (engine == "no kernel") return absl::AbortedError("it cannot be built");
    return std::make_unique<Shows>(*this);
  }

 private:
  struct Shows final : Kernel {
    explicit Shows(ShownDevice& shown) : device(shown) {}
    absl::Status Run(const KernelArgs& args) override {
      // What was enqueued before runs first.
      const absl::Status synchronized = device.Synchronize();
      if (synchronized.ok()) device.show_(args);
      return synchronized;
    }
    ShownDevice& device;
  };
  Show show_;
};

template <typename T>
std::set<float> NumbersOf(const void* operand, const TensorSpec& spec) {
  std::set<float> numbers;
  for (int64_t i = 0; i < spec.elements(); ++i)
    numbers.insert(static_cast<float>(static_cast<const T*>(operand)[i]));
  return numbers;
}

std::set<float> NumbersOf(const void* operand, const TensorSpec& spec) {
  if (spec.dtype == DType::kFp16) return NumbersOf<Fp16>(operand, spec);
  if (spec.dtype == DType::kBf16) return NumbersOf<Bf16>(operand, spec);
  return NumbersOf<float>(operand, spec);
}

TEST_CASE(
    "operands are random numbers of their type within -1 and 1, none beside another's bytes") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  for (const DType dtype : {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16}) {
    CAPTURE(Name(dtype));
    const StepSignature step = SmallStep(dtype);
    int shown = 0;
    ShownDevice device(*cpu, [&](const KernelArgs& args) {
      ++shown;
      REQUIRE(args.operands.size() == step.operands.size());
      CHECK(args.workspace_bytes == 3 * kKiB);
      const std::byte* end = nullptr;
      for (size_t i = 0; i < args.operands.size(); ++i) {
        const TensorSpec& spec = step.operands[i].tensor;
        const auto* const data = static_cast<const std::byte*>(args.operands[i]);
        CHECK(reinterpret_cast<uintptr_t>(data) % kWorkspaceAlignment == 0);
        if (end != nullptr) CHECK(data >= end);
        end = data + spec.size_bytes();
        const std::set<float> numbers = NumbersOf(data, spec);
        CHECK(numbers.size() > 100);
        CHECK(*numbers.begin() >= -1);
        CHECK(*numbers.begin() < -0.8F);
        CHECK(*numbers.rbegin() <= 1);
        CHECK(*numbers.rbegin() > 0.8F);
      }
      CHECK(static_cast<const std::byte*>(args.workspace) >= end);
      std::memset(args.workspace, 1, static_cast<size_t>(args.workspace_bytes));
    });
    KernelBench bench =
        KernelBench::Create(device, KernelBench::BytesFor(step, 3 * kKiB), 1).value();
    REQUIRE(bench.Place(step).ok());
    const Engine engine = {.id = "shows", .workspace_bytes = 3 * kKiB};
    CHECK(bench.Measure(step, engine)->median_seconds > 0);
    CHECK(shown > 0);
  }
}

TEST_CASE("labels are zeros, and an operand larger than the numbers has copies of them") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  const StepSignature loss =
      SignatureOf(SoftmaxCrossEntropy{}, Phase::kForward, {{{4, 10, 1, 1}}, {{4}, DType::kInt32}})
          .value();
  const size_t labels = loss.Find({Slot::kInput, 1}).value();
  REQUIRE(loss.operands[labels].tensor.dtype == DType::kInt32);
  ShownDevice shows_labels(*cpu, [&](const KernelArgs& args) {
    const auto* const numbers = static_cast<const int32_t*>(args.operands[labels]);
    CHECK(std::all_of(numbers, numbers + 4, [](int32_t label) { return label == 0; }));
  });
  KernelBench bench = KernelBench::Create(shows_labels, KernelBench::BytesFor(loss, 0), 1).value();
  REQUIRE(bench.Place(loss).ok());
  REQUIRE(!bench.Measure(loss, {.id = "shows"})->failed());

  const StepSignature large = AdditionSignature({{3, 1000, 500}});  // 6,000,000 bytes
  ShownDevice shows_copies(*cpu, [&](const KernelArgs& args) {
    constexpr int64_t kNumbers = 4 * kMiB / 4;
    const auto* const numbers = static_cast<const float*>(args.operands[0]);
    CHECK(std::equal(numbers, numbers + 1'500'000 - kNumbers, numbers + kNumbers));
  });
  KernelBench copies =
      KernelBench::Create(shows_copies, KernelBench::BytesFor(large, 0), 1).value();
  REQUIRE(copies.Place(large).ok());
  REQUIRE(!copies.Measure(large, {.id = "shows"})->failed());
}

// A device with such a cache, and the operands of all runs of a kernel on it, in their order.
struct ShownRuns {
  explicit ShownRuns(Device& cpu, int64_t cache_bytes)
      : shown(cpu,
              [this](const KernelArgs& args) {
                runs.emplace_back(args.operands.begin(), args.operands.end());
                for (size_t i = 0; i < args.operands.size(); ++i)
                  CHECK(NumbersOf(args.operands[i], step.operands[i].tensor).size() > 100);
                std::memset(args.workspace, 0, static_cast<size_t>(args.workspace_bytes));
              }),
        device(shown, WithCache(cpu.description(), cache_bytes)) {}
  static DeviceDescription WithCache(DeviceDescription description, int64_t bytes) {
    description.gpu = GpuProperties{.l2_cache_bytes = bytes};
    return description;
  }
  // The different places of an operand.
  std::set<const void*> PlacesOf(Operand operand) const {
    std::set<const void*> places;
    for (const std::vector<const void*>& run : runs) places.insert(run[step.Find(operand).value()]);
    return places;
  }

  StepSignature step = SmallStep();
  std::vector<std::vector<const void*>> runs;
  ShownDevice shown;
  DescribedAs device;
};

TEST_CASE(
    "what a step before has not written is elsewhere in every run, as far as the cache goes") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  const auto measured = [&](StepSignature step, int64_t cache_bytes, int64_t free_bytes,
                            int64_t workspace_bytes) {
    ShownRuns runs(*cpu, cache_bytes);
    runs.step = std::move(step);
    const int64_t bytes = KernelBench::BytesFor(runs.step, workspace_bytes) + free_bytes;
    KernelBench bench = KernelBench::Create(runs.device, bytes, 1).value();
    REQUIRE(bench.Place(runs.step).ok());
    const Engine engine = {.id = "shows", .workspace_bytes = workspace_bytes};
    REQUIRE(!bench.Measure(runs.step, engine)->failed());
    return std::array{runs.PlacesOf(operands::X()).size(), runs.PlacesOf(operands::Y()).size(),
                      runs.PlacesOf(operands::Param(0)).size()};
  };
  const auto forward = [&](int64_t cache_bytes, int64_t free_bytes, int64_t workspace_bytes = 0) {
    return measured(SmallStep(), cache_bytes, free_bytes, workspace_bytes);
  };
  using Places = std::array<size_t, 3>;  // of x, y and the weight
  // Results and weights have 35 KiB, so three sets are more than 70.
  CHECK(forward(70 * kKiB, kMiB) == Places{1, 3, 3});
  CHECK(forward(17 * kKiB, kMiB) == Places{1, 1, 1});  // two caches are less than a set
  CHECK(forward(0, kMiB) == Places{1, 1, 1});          // no cache
  CHECK(forward(10 * kMiB, kMiB) == Places{1, 16, 16});
  CHECK(forward(70 * kKiB, 69 * kKiB) == Places{1, 2, 2});  // memory for one more
  CHECK(forward(70 * kKiB, 34 * kKiB) == Places{1, 1, 1});
  CHECK(forward(70 * kKiB, 70 * kKiB, 5 * kKiB) == Places{1, 3, 3});

  // Of a backward step the gradient of the output stays where it is.
  ShownRuns runs(*cpu, 10 * kMiB);
  runs.step = SmallStep(DType::kFp32, Phase::kBackwardData);
  KernelBench bench =
      KernelBench::Create(runs.device, KernelBench::BytesFor(runs.step, 0) + kMiB, 1).value();
  REQUIRE(bench.Place(runs.step).ok());
  REQUIRE(!bench.Measure(runs.step, {.id = "shows"})->failed());
  CHECK(runs.PlacesOf(operands::Dy()).size() == 1);
  CHECK(runs.PlacesOf(operands::Dx()).size() == 16);
}

TEST_CASE("operands that a workspace has overwritten are filled again for a smaller one") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  ShownRuns runs(*cpu, 70 * kKiB);
  const int64_t bytes = KernelBench::BytesFor(runs.step, 0) + 70 * kKiB;
  KernelBench bench = KernelBench::Create(runs.device, bytes, 1).value();
  REQUIRE(bench.Place(runs.step).ok());
  const auto places = [&](int64_t workspace_bytes) {
    runs.runs.clear();
    const Engine engine = {.id = "shows", .workspace_bytes = workspace_bytes};
    REQUIRE(!bench.Measure(runs.step, engine)->failed());
    return runs.PlacesOf(operands::Y()).size();
  };
  CHECK(places(0) == 3);
  CHECK(places(kKiB) == 2);
  CHECK(places(36 * kKiB) == 1);
  CHECK(places(kKiB) == 2);
  CHECK(places(0) == 3);
}

TEST_CASE("an engine's time is the median of its samples, with the numbers of the engine") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  // Long enough to be run once in a sample: the warm-up, the first, two more, and the samples.
  const Engine engine = {.id = "steady", .workspace_bytes = 2 * kKiB, .deterministic = false};
  ScriptedDevice device(*cpu, {{engine, {9000, 1000}}});
  KernelBench bench =
      KernelBench::Create(device, KernelBench::BytesFor(SmallStep(), 2 * kKiB), 5).value();
  REQUIRE(bench.Place(SmallStep()).ok());
  const Measurement time = bench.Measure(SmallStep(), engine).value();
  CHECK(!time.failed());
  CHECK(time.median_seconds == Approx(1e-3));
  CHECK(time.spread == Approx(0));
  CHECK(time.repeats == 5);
  CHECK(time.batch == 8);
  CHECK(time.engine.id == "steady");
  CHECK(time.engine.workspace_bytes == 2 * kKiB);
  CHECK(!time.engine.deterministic);
  CHECK(CheckPossible(time).ok());
}

TEST_CASE("an engine that does not build or run is a result, lack of memory and a stop are not") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  ShownDevice device(*cpu, [](const KernelArgs& /*args*/) {});
  KernelBench bench = KernelBench::Create(device, KernelBench::BytesFor(SmallStep(), 0), 3).value();
  REQUIRE(bench.Place(SmallStep()).ok());
  const Measurement failed = bench.Measure(SmallStep(), {.id = "no kernel"}).value();
  CHECK(failed.failure == "it cannot be built");
  CHECK(failed.repeats == 0);
  CHECK(CheckPossible(failed).ok());
  CHECK(bench.Measure(SmallStep(), {.id = "no memory"}).status() ==
        absl::ResourceExhaustedError("no memory for its code"));
  CHECK(absl::IsCancelled(
      bench.Measure(SmallStep(), {.id = "shows"}, 1, [] { return false; }).status()));
  CHECK(!bench.Measure(SmallStep(), {.id = "shows"}, 1, [] { return true; })->failed());

  ScriptedDevice fails(*cpu, {{{.id = "crashes"}, {0}}});
  KernelBench crashed =
      KernelBench::Create(fails, KernelBench::BytesFor(SmallStep(), 0), 3).value();
  REQUIRE(crashed.Place(SmallStep()).ok());
  CHECK(crashed.Measure(SmallStep(), {.id = "crashes"})->failure == "an illegal address");
}

TEST_CASE("an engine that is hopelessly slow is timed no longer") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  ScriptedDevice device(*cpu, {{{.id = "slow"}, {5000}}});
  KernelBench bench = KernelBench::Create(device, KernelBench::BytesFor(SmallStep(), 0), 7).value();
  REQUIRE(bench.Place(SmallStep()).ok());
  CHECK(bench.Measure(SmallStep(), {.id = "slow"})->repeats == 7);
  const Measurement hopeless = bench.Measure(SmallStep(), {.id = "slow"}, 1e-3).value();
  CHECK(hopeless.repeats == 1);
  CHECK(hopeless.median_seconds == Approx(5e-3));
}

TEST_CASE("a configuration takes the time of its parts") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  ScriptedDevice device(*cpu, {{{.id = "a"}, {3000}}, {{.id = "b"}, {1000}}});
  KernelBench bench = KernelBench::Create(device, KernelBench::BytesFor(SmallStep(), 0), 3).value();
  REQUIRE(bench.Place(SmallStep()).ok());
  const Configuration divided = {.parts = {{"a", 4}, {"b", 2}, {"b", 2}}};
  CHECK(bench.MedianSeconds(SmallStep(), divided).value() == Approx(5e-3));
  const Configuration whole = {.parts = {{"a", 8}}};
  CHECK(bench.MedianSeconds(SmallStep(), whole).value() == Approx(3e-3));
}

TEST_CASE("a bench needs at least its numbers, and device memory that there is") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  CHECK(KernelBench::Create(*cpu, 0, 1).value().WorkspaceBytes(SmallStep()) < 0);
  CHECK(!KernelBench::Create(*cpu, int64_t{1} << 60, 1).ok());
}

}  // namespace
}  // namespace neap
