#include "neap/layers/catalog/table_backend.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"

namespace neap {
namespace {

struct EmptyKernel final : Kernel {
  absl::Status Run(const KernelArgs&) override { return absl::OkStatus(); }
};

// A row function that lists engines with these ids; ids that begin with "bad" do not build.
auto Lists(std::vector<std::string> ids) {
  return [ids = std::move(ids)](const StepSignature&) -> absl::StatusOr<KernelCandidates> {
    KernelCandidates candidates;
    for (const std::string& id : ids) {
      const auto make = [id]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
        if (id.rfind("bad", 0) == 0) return absl::InternalError("does not build");
        return std::make_unique<EmptyKernel>();
      };
      candidates.push_back({.engine = {.id = id}, .make = make});
    }
    return candidates;
  };
}

StepSignature ReluStep(Phase phase, DType dtype = DType::kFp32) {
  StepSignature signature = SignatureOf(Relu{}, Phase::kForward, {{{1, 2, 3, 3}, dtype}}).value();
  signature.phase = phase;
  return signature;
}

std::string FirstEngine(Backend& backend, const StepSignature& signature) {
  const absl::StatusOr<std::vector<Engine>> engines = backend.Engines(signature);
  return engines.ok() ? engines->front().id : std::string(engines.status().message());
}

TEST_CASE("the first row that matches a step lists its engines") {
  TableBackend backend({.device = "the table",
                        .versions = "1.0",
                        .rows = {{kAnyLayer, Phase::kUpdate, Lists({"update"})},
                                 {kLayer<Relu>, Phase::kForward, Lists({"forward"})},
                                 {kLayer<Relu>, std::nullopt, Lists({"another phase"})},
                                 {kLayer<Relu>, Phase::kBackwardData, Lists({"never"})}}});
  CHECK(backend.Versions() == "1.0");
  CHECK(FirstEngine(backend, ReluStep(Phase::kUpdate)) == "update");
  CHECK(FirstEngine(backend, ReluStep(Phase::kForward)) == "forward");
  CHECK(FirstEngine(backend, ReluStep(Phase::kBackwardData)) == "another phase");
  StepSignature sigmoid = ReluStep(Phase::kForward);
  sigmoid.layer = Sigmoid{};
  CHECK(absl::IsUnimplemented(backend.Engines(sigmoid).status()));
  CHECK(FirstEngine(backend, sigmoid).rfind("the table has no kernel for sigmoid forward; ", 0) ==
        0);
  sigmoid.phase = Phase::kUpdate;
  CHECK(FirstEngine(backend, sigmoid) == "update");
}

// A definition with the type of a built-in layer, whose kernels would read other fields.
struct OwnRelu {
  static constexpr std::string_view kType = Relu::kType;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    return Relu{}.Specify(context);
  }
  friend bool operator==(const OwnRelu&, const OwnRelu&) = default;
};

TEST_CASE("a layer with the type of a built-in layer and another definition is refused") {
  TableBackend backend({.device = "the table",
                        .rows = {{kAnyLayer, Phase::kUpdate, Lists({"update"})},
                                 {kLayer<Relu>, Phase::kForward, Lists({"forward"})}}});
  StepSignature step = ReluStep(Phase::kForward);
  CHECK(FirstEngine(backend, step) == "forward");
  step.layer = OwnRelu{};
  CHECK(absl::IsInvalidArgument(backend.Engines(step).status()));
  CHECK(FirstEngine(backend, step) ==
        "a layer of type relu is not the one that neap has; give the layer a type of its own");
  CHECK(absl::IsInvalidArgument(backend.MakeKernel(step, "forward").status()));
  step.phase = Phase::kBackwardData;  // without a row for this phase, too
  CHECK(absl::IsInvalidArgument(backend.Engines(step).status()));
}

TEST_CASE("an unsupported step of a built-in layer is refused without a hint at custom kernels") {
  TableBackend backend(
      {.device = "the table", .rows = {{kLayer<Relu>, Phase::kForward, Lists({"forward"})}}});
  CHECK(FirstEngine(backend, ReluStep(Phase::kBackwardData)) ==
        "the table has no kernel for relu backward_data");
}

TEST_CASE("every table refuses sums that its kernels would overwrite") {
  KernelTable table = {.device = "the table", .rows = {{kAnyLayer, std::nullopt, Lists({"any"})}}};
  TableBackend writes(table);
  table.adds_parts = true;
  TableBackend adds(std::move(table));
  StepSignature sum = ReluStep(Phase::kForward);
  sum.operands.back().access = Access::kAccumulate;
  CHECK(FirstEngine(adds, sum) ==
        "the table has no kernel for relu forward that accumulates output[0]");
  const StepSignature part = AddingSignature(
      SignatureOf(Convolution{.out_channels = 2}, Phase::kBackwardParams, {{{1, 2, 3, 3}}})
          .value());
  CHECK(absl::IsUnimplemented(writes.Engines(part).status()));
  CHECK(FirstEngine(adds, part) == "any");
}

TEST_CASE("an engine that does not build is no longer listed, unless it is the last") {
  TableBackend backend(
      {.device = "the table",
       .rows = {{kAnyLayer, std::nullopt, Lists({"bad one", "good", "bad two"})}}});
  const StepSignature step = ReluStep(Phase::kForward);
  CHECK(backend.Engines(step)->size() == 3);
  CHECK(absl::IsAborted(backend.MakeKernel(step, "bad one").status()));
  CHECK(FirstEngine(backend, step) == "good");
  CHECK(backend.MakeKernel(step, "good").ok());
  CHECK(absl::IsNotFound(backend.MakeKernel(step, "unknown").status()));
}

TEST_CASE("a plan may name an engine that is not listed") {
  TableBackend backend(
      {.device = "the table",
       .rows = {{kLayer<Relu>, std::nullopt, Lists({"listed"}), Lists({"more", "bad more"})}}});
  const StepSignature step = ReluStep(Phase::kForward);
  CHECK(backend.Engines(step)->size() == 1);
  for (const char* id : {"listed", "more"}) {
    CHECK(backend.Find(step, id)->id == id);
    CHECK(MakeKernelWithin(backend, step, id, 0).ok());
  }
  CHECK(absl::IsInternal(MakeKernelWithin(backend, step, "bad more", 0).status()));
  CHECK(absl::IsNotFound(backend.Find(step, "none").status()));
  CHECK(absl::IsNotFound(MakeKernelWithin(backend, step, "none", 0).status()));
  CHECK(MakeKernelWithin(backend, step, "", 0).ok());  // the only one that is listed
}

TEST_CASE("the device is entered before engines are listed and before a kernel is made") {
  int entered = 0;
  bool is_lost = false;
  TableBackend backend({.device = "the table",
                        .rows = {{kAnyLayer, std::nullopt, Lists({"good"})}},
                        .enter = [&]() -> absl::Status {
                          ++entered;
                          return is_lost ? absl::InternalError("lost") : absl::OkStatus();
                        }});
  const StepSignature step = ReluStep(Phase::kForward);
  CHECK(backend.Engines(step).ok());
  CHECK(entered == 1);
  CHECK(backend.Engines(step).ok());
  CHECK(entered == 1);  // the list is known
  CHECK(backend.MakeKernel(step, "good").ok());
  CHECK(entered == 2);
  is_lost = true;
  CHECK(absl::IsInternal(backend.MakeKernel(step, "good").status()));
  CHECK(backend.Engines(step)->size() == 1);
  CHECK(absl::IsInternal(backend.Engines(ReluStep(Phase::kBackwardData)).status()));
}

TEST_CASE("a custom kernel runs on the table's device and stream") {
  int entered = 0, stream = 0;
  std::vector<std::string> ran;
  const auto run = [&](const CustomRun& step) {
    ran.push_back(std::string(Name(step.signature.phase)));
    CHECK(step.stream == &stream);
    CHECK(step.Get<int>(operands::X()) == &entered);
    CHECK(step.Find<int>(operands::Dy()) == nullptr);
    return absl::OkStatus();
  };
  KernelTable table = {.device = "the table", .stream = &stream, .enter = [&] {
                         ++entered;
                         return absl::OkStatus();
                       }};
  const std::unique_ptr<TableBackend> backend =
      TableBackend::Create(std::move(table), {{.layer_type = "relu", .run = run, .engine = "own"}})
          .value();
  CHECK(FirstEngine(*backend, ReluStep(Phase::kForward, DType::kBf16)) ==
        "the kernel registered for relu forward does not take bf16 operands such as input[0]: its "
        "takes_16_bits is false");
  const StepSignature step = ReluStep(Phase::kForward);
  CHECK(FirstEngine(*backend, step) == "own");
  const std::unique_ptr<Kernel> kernel = backend->MakeKernel(step, "own").value();
  void* operands[] = {&entered, &stream};
  CHECK(kernel->Run({.operands = operands}).ok());
  CHECK(ran == std::vector<std::string>{"forward"});
  CHECK(entered == 2 + 2);  // to list the engines of two steps, to make a kernel, and to run it
}

}  // namespace
}  // namespace neap
