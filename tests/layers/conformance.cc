#include "tests/layers/conformance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/step/specify.h"
#include "neap/core/step/step_signature.h"
#include "neap/core/vision/batch.h"
#include "neap/layers/fusion/biased_gelu.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "tests/layers/reference.h"
#include "tests/layers/reference_batch_norm.h"
#include "tests/layers/reference_sync_batch_norm.h"

namespace neap::testing {
namespace {

using namespace operands;

constexpr double kLearningRate = 0.1;
constexpr double kStep = 3;
constexpr double kSeed = 123456789;
constexpr double kMaxChosen = 8;    // at least the largest normalised value or sum of a case
constexpr double kNearKink = 2e-6;  // of sums of fp32 values of a case, at most their rounding

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  // An fp32 number in [low, high).
  double Uniform(double low, double high) {
    return static_cast<float>(low + (high - low) * (static_cast<double>(engine_()) * 0x1p-32));
  }
  std::vector<double> Vector(const TensorSpec& spec, double low, double high) {
    std::vector<double> values(static_cast<size_t>(spec.elements()));
    for (double& value : values) value = Uniform(low, high);
    return Rounded(spec, values);
  }
  // From 0 to count - 1, or with `has_none` also kNoLabel.
  std::vector<double> Indices(const TensorSpec& spec, int64_t count, bool has_none) {
    std::vector<double> values(static_cast<size_t>(spec.elements()));
    const int64_t first = has_none ? kNoLabel : 0;
    for (double& value : values) {
      value = static_cast<double>(engine_() % static_cast<uint64_t>(count - first)) +
              static_cast<double>(first);
    }
    return values;
  }

 private:
  std::mt19937 engine_;
};

// The largest relative error of `kRoundings` roundings to the type; 0 for others than 16-bit types,
// whose rounding a test's tolerance includes.
double RoundingOf(DType dtype) {
  constexpr double kRoundings = 3;  // the most in a fused layer: batch norm, sum, result
  if (dtype == DType::kFp16) return kRoundings * 0x1p-11;
  return dtype == DType::kBf16 ? kRoundings * 0x1p-8 : 0;
}

bool EqualBits(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint64_t>(a[i]) != std::bit_cast<uint64_t>(b[i])) return false;
  }
  return true;
}

bool Accumulates(const StepSpec& step, Slot slot) {
  const std::vector<Slot>& native = step.accumulates_natively;
  return std::find(native.begin(), native.end(), slot) != native.end();
}

// Tests one case on one backend, and collects failures.
class Conformance {
 public:
  Conformance(Backend& backend, const DeviceAccess& access, const LayerCase& layer_case,
              const ConformanceOptions& options)
      : backend_(backend), access_(access), case_(layer_case), options_(options) {}

  std::vector<std::string> Run() {
    RunMode(Mode::kTraining);
    RunMode(Mode::kInference);
    RunUpdates();
    RunAddition();
    return std::move(failures_);
  }

 private:
  void RunMode(Mode mode) {
    const absl::StatusOr<LayerSpec> spec = case_.layer.Specify(case_.Context(mode));
    if (!spec.ok()) return Fail("Specify", std::string(spec.status().message()));
    values_ = RandomValues(case_, *spec, options_.seed);
    for (const StepSpec& step : spec->steps) {
      SignatureOptions of = {
          .layer = case_.layer, .spec = *spec, .inputs = case_.inputs, .mode = mode};
      CheckStep(step, of);
      for (const Operand operand : step.optional_writes) {
        StepSignature signature = SignatureOf(step, of);
        std::erase_if(signature.operands, [&](const auto& one) { return one.operand == operand; });
        CheckSignature(signature, {});
      }
      if (step.sums_output_grads) {
        StepSignature signature = SignatureOf(step, of);
        signature.operands.push_back({Dy(1), signature.Spec(Dy()), Access::kRead});
        CheckSignature(signature, step.in_place);
      }
      for (int i = 0; step.phase != Phase::kForward && i < spec->output_count(); ++i) {
        if (spec->output_count() == 1) break;
        StepSignature signature = SignatureOf(step, of);  // no loss depends on output i
        std::erase_if(signature.operands, [i](const auto& one) { return one.operand == Dy(i); });
        CheckSignature(signature, step.in_place);
      }
      if (Accumulates(step, Slot::kParamGrad))
        CheckSignature(AddingSignature(SignatureOf(step, of)), {});
      if (!Accumulates(step, Slot::kInputGrad)) continue;
      of.accumulate = true;
      StepSignature signature = SignatureOf(step, of);
      CheckSignature(signature, {});
      if (!signature.Has(Dx(1))) continue;
      for (OperandSpec& operand : signature.operands) {  // into some of the gradients only
        if (operand.operand.slot == Slot::kInputGrad && operand.operand.index % 2 == 0)
          operand.access = Access::kWrite;
      }
      CheckSignature(signature, {});
    }
  }

  void RunUpdates() {
    const absl::StatusOr<LayerSpec> spec = case_.layer.Specify(case_.Context());
    if (!spec.ok() || spec->params.empty()) return;
    std::vector<TensorSpec> params;
    for (const ParamSpec& param : spec->params) params.push_back(param.tensor);
    values_ = RandomValues(case_, *spec, options_.seed);
    for (const Optimizer& optimizer : SomeOptimizers())
      CheckSignature(UpdateSignature(case_.layer, params, optimizer), {});
  }

  // Tests the sum of two gradients of the first input.
  void RunAddition() {
    const TensorSpec& gradient = case_.inputs[0];
    if (gradient.dtype == DType::kInt32) return;  // it has none
    Random random(options_.seed);
    values_ = {{Dx(), random.Vector(gradient, -1, 1)}, {Addend(), random.Vector(gradient, -1, 1)}};
    CheckSignature(AdditionSignature(gradient), {});
  }

  // Tests the step, also in place and as a rerun, and stores its results for the following steps.
  void CheckStep(const StepSpec& step, const SignatureOptions& of) {
    const StepSignature signature = SignatureOf(step, of);
    CheckSignature(signature, step.in_place);
    for (const auto& [operand, vector] : ReferenceStep(signature, values_))
      values_[operand] = Rounded(signature.Spec(operand), vector);
    if (step.phase == Phase::kForward && of.mode == Mode::kTraining) CheckRerun(step, of);
  }

  void CheckSignature(const StepSignature& signature,
                      const std::vector<std::pair<Operand, Operand>>& in_place) {
    const std::string phase(Name(signature.phase));
    const absl::StatusOr<std::vector<Engine>> engines = backend_.Engines(signature);
    if (!engines.ok()) return Fail(phase, std::string(engines.status().message()));
    const Values want = ReferenceStep(signature, values_);
    const std::vector<Engine> checked = ToCheck(*engines);
    for (const Engine& engine : checked) CheckEngine(signature, in_place, engine, want);
  }

  // The first engines, and the first one with a ReLU and the first one without.
  std::vector<Engine> ToCheck(const std::vector<Engine>& engines) const {
    std::vector<Engine> checked;
    bool has[] = {false, false};
    for (size_t i = 0; i < engines.size(); ++i) {
      bool& has_kind = has[engines[i].computes_relu ? 1 : 0];
      if (i < options_.most_engines || !has_kind) checked.push_back(engines[i]);
      has_kind = true;
    }
    return checked;
  }

  void CheckEngine(const StepSignature& signature,
                   const std::vector<std::pair<Operand, Operand>>& in_place, const Engine& engine,
                   const Values& want) {
    const std::string what = absl::StrCat(std::string(Name(signature.phase)), " by ", engine.id);
    const absl::StatusOr<Values> got = RunOnce(signature, {.engine = engine.id}, what);
    if (!got.ok()) return;
    std::vector<std::string> differences = Differences(signature, *got, want);
    if (!differences.empty() && AgreesNearKink(signature, *got)) differences.clear();
    for (const std::string& difference : differences) Fail(what, difference);
    if (engine.deterministic) {
      CheckSameBits(*got, RunOnce(signature, {.engine = engine.id}, what), what + " again");
    }
    for (const auto& pair : in_place) {
      const RunOptions shared = {.engine = engine.id, .in_place = {pair}};
      CheckSameBits(*got, RunOnce(signature, shared, what), what + " in place");
    }
  }

  // Of each operand that differs from what is wanted.
  std::vector<std::string> Differences(const StepSignature& signature, const Values& got,
                                       const Values& want) const {
    std::vector<std::string> differences;
    for (const auto& [operand, vector] : want) {
      // What is between a batch norm and an activation is rounded, too, and part of all results,
      // and so are logits, and the gradient whose sums are those of a bias before a GELU.
      const bool rounds = signature.Has(X()) && (IsActivatedNorm(signature.layer) ||
                                                 signature.layer.As<LinearCrossEntropy>() ||
                                                 signature.layer.As<BiasedGelu>());
      const DType rounded = signature.Spec(rounds ? X() : operand).dtype;
      const double tolerance = options_.tolerance + RoundingOf(rounded);
      const std::string difference =
          IsChoice(signature, operand)
              ? ChoiceFailure(signature, values_, got, kMaxChosen * ToleranceOf(signature))
              : Difference(got.at(operand), vector, tolerance);
      if (!difference.empty())
        differences.push_back(absl::StrCat(ToString(operand), ": ", difference));
    }
    return differences;
  }

  // Where backward computes the argument of a ReLU anew, rounding may put it on the other side of
  // the kink at 0: true if `got` agrees with the reference of parameters that are a rounding larger
  // or smaller.
  bool AgreesNearKink(const StepSignature& signature, const Values& got) const {
    for (const double shift : {-kNearKink, kNearKink}) {
      Values shifted = values_;
      for (auto& [operand, vector] : shifted) {
        if (operand.slot != Slot::kParam) continue;
        for (double& value : vector) value += shift;
      }
      if (Differences(signature, got, ReferenceStep(signature, shifted)).empty()) return true;
    }
    return false;
  }

  // Relative, of the step's tensors.
  double ToleranceOf(const StepSignature& signature) const {
    return options_.tolerance + RoundingOf(signature.Spec(X()).dtype);
  }

  // A rerun gives the bits of the preceding forward step, whose results it reads; also in place.
  void CheckRerun(const StepSpec& step, SignatureOptions of) {
    const StepSignature first = SignatureOf(step, of);
    of.rerun = true;
    const StepSignature rerun = SignatureOf(step, of);
    const absl::StatusOr<Values> got =
        RunStep(backend_, access_, first, values_, {.engine = DeterministicEngine(first)});
    if (!got.ok()) return;  // reported already
    const Values before = values_;
    for (const auto& [operand, vector] : *got) {
      if (operand.slot == Slot::kSaved) values_[operand] = vector;
    }
    std::vector<RunOptions> runs = {{.engine = DeterministicEngine(rerun)}};
    for (const auto& pair : step.in_place)
      runs.push_back({.engine = runs.front().engine, .in_place = {pair}});
    for (const RunOptions& options : runs) {
      const std::string what = options.in_place.empty() ? "rerun" : "rerun in place";
      const absl::StatusOr<Values> again = RunOnce(rerun, options, what);
      if (again.ok()) CheckSameBits(*again, got, what);
    }
    values_ = before;
  }

  // The first deterministic engine, as in plans.
  std::string DeterministicEngine(const StepSignature& signature) {
    const absl::StatusOr<std::vector<Engine>> engines = backend_.Engines(signature);
    if (!engines.ok()) return "";
    const auto found = std::find_if(engines->begin(), engines->end(),
                                    [](const Engine& engine) { return engine.deterministic; });
    return found == engines->end() ? "" : found->id;
  }

  absl::StatusOr<Values> RunOnce(const StepSignature& signature, const RunOptions& options,
                                 const std::string& what) {
    absl::StatusOr<Values> got = RunStep(backend_, access_, signature, values_, options);
    if (!got.ok()) Fail(what, std::string(got.status().message()));
    return got;
  }

  void CheckSameBits(const Values& some, const absl::StatusOr<Values>& all,
                     const std::string& what) {
    if (!all.ok()) return;
    for (const auto& [operand, vector] : some) {
      if (EqualBits(vector, all->at(operand))) continue;
      Fail(what, absl::StrCat(ToString(operand),
                              " has other bits: ", Difference(vector, all->at(operand), 0)));
    }
  }

  void Fail(const std::string& what, const std::string& why) {
    failures_.push_back(absl::StrCat(case_.name, ": ", what, ": ", why));
  }

  Backend& backend_;
  const DeviceAccess& access_;
  const LayerCase& case_;
  const ConformanceOptions& options_;
  Values values_;
  std::vector<std::string> failures_;
};

}  // namespace

Values RandomValues(const LayerCase& layer_case, const LayerSpec& spec, uint32_t seed) {
  Random random(seed);
  Values values = {{Iteration(), {kLearningRate, kStep, kSeed}}, {GradientNorm(), {9}}};
  for (size_t i = 0; i < layer_case.inputs.size(); ++i) {
    const TensorSpec& input = layer_case.inputs[i];
    const int k = static_cast<int>(i);
    if (input.dtype == DType::kInt32) {
      const int64_t count = spec.index_count.value_or(layer_case.inputs[0].shape.c());
      const bool has_none = layer_case.layer.As<Embedding>() == nullptr;
      values[X(k)] = random.Indices(input, count, has_none);
      continue;
    }
    values[X(k)] = AsInput(layer_case.layer, X(k), input, random.Vector(input, -2, 2));
    values[Dx(k)] = random.Vector(input, -1, 1);
  }
  for (int i : {0, 1}) values[Dy(i)] = random.Vector(spec.output, -1, 1);
  for (int i = 1; i < spec.output_count(); ++i)
    values[Dy(i)] = random.Vector(spec.OutputSpec(i), -1, 1);
  for (size_t i = 0; i < spec.params.size(); ++i) {
    const int k = static_cast<int>(i);
    const TensorSpec full = InFullPrecision(spec.params[i].tensor);
    values[Param(k)] = random.Vector(spec.params[i].tensor, -1, 1);
    values[ParamGrad(k)] = random.Vector(full, -1, 1);
    values[Moment(k)] = random.Vector(full, -1, 1);
    values[SecondMoment(k)] = random.Vector(full, 0, 1);
    values[Average(k)] = random.Vector(full, -1, 1);
    values[Master(k)] = random.Vector(full, -1, 1);
  }
  for (size_t i = 0; i < spec.states.size(); ++i) {
    values[State(static_cast<int>(i))] = random.Vector(spec.states[i].tensor, 0.5, 1.5);
  }
  return values;
}

std::string Difference(const std::vector<double>& got, const std::vector<double>& want,
                       double tolerance, double least_scale) {
  if (got.size() != want.size()) {
    return absl::StrCat(got.size(), " elements, expected ", want.size());
  }
  double largest = least_scale;
  for (double value : want) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (std::abs(got[i] - want[i]) <= tolerance * largest) continue;
    return absl::StrFormat("element %d is %.9g, expected %.9g (largest %.3g)", i, got[i], want[i],
                           largest);
  }
  return "";
}

std::vector<std::string> ConformanceFailures(Backend& backend, const DeviceAccess& access,
                                             const LayerCase& layer_case,
                                             const ConformanceOptions& options) {
  return Conformance(backend, access, layer_case, options).Run();
}

}  // namespace neap::testing
