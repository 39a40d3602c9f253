// Session, the part of it that is written in C++. apps/python/neap/session.py has the rest.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/python/arrays.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/held_session.h"
#include "apps/python/planned.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/with_options.h"
#include "neap/nets/with_loss.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;
using Path = std::filesystem::path;

// A constant rate, or one that depends on the step.
using Rate = std::variant<float, LearningRate>;

LearningRate ToLearningRate(const Rate& rate) {
  if (const auto* const base = std::get_if<float>(&rate)) return {.base = *base};
  return std::get<LearningRate>(rate);
}

void Construct(HeldSession* session, const Graph& net, std::optional<std::string> device,
               std::optional<Bytes> budget, std::optional<std::string> dtype, const Rate& rate,
               float momentum, float weight_decay, uint64_t seed, std::optional<std::string> policy,
               std::optional<Bytes> host_budget, std::optional<int64_t> sub_batches,
               bool offload_params, bool strict, bool inference_only, bool training_only,
               float label_smoothing) {
  GraphOptions options = net.options();
  if (dtype.has_value()) options.dtype = Checked(ParseDType(*dtype));
  const SessionArguments arguments = {
      .planning = {.device = std::move(device),
                   .budget = std::move(budget),
                   .host_budget = std::move(host_budget),
                   .policy = std::move(policy),
                   .sub_batches = sub_batches,
                   .offload_params = offload_params,
                   .strict = strict},
      .training = {.sgd = {.momentum = momentum, .weight_decay = weight_decay},
                   .learning_rate = ToLearningRate(rate),
                   .seed = seed,
                   .inference_only = inference_only,
                   .training_only = training_only},
      .label_smoothing = label_smoothing};
  new (session) HeldSession(WithOptions(net, options), arguments);
}

// Errors: INVALID_ARGUMENT for an array that is not some number of `what` of the given shape.
absl::Status CheckShape(const char* what, const std::vector<int64_t>& shape,
                        const std::vector<int64_t>& of_each) {
  const bool fits = shape.size() == of_each.size() + 1 &&
                    std::equal(of_each.begin(), of_each.end(), shape.begin() + 1);
  if (fits) return absl::OkStatus();
  const char* const separator = of_each.empty() ? "" : ", ";
  return absl::InvalidArgumentError(absl::StrCat(what, " have the shape (",
                                                 absl::StrJoin(shape, ", "), "), expected (n",
                                                 separator, absl::StrJoin(of_each, ", "), ")"));
}

// Labels, or targets for a network whose loss reads them.
using Answers = std::variant<InArray<int32_t>, InArray<float>>;

template <typename T>
absl::StatusOr<std::vector<T>> ToVector(const char* what, const InArray<T>& array,
                                        const std::vector<int64_t>& of_each, size_t images) {
  RETURN_IF_ERROR(CheckShape(what, ShapeOf(array), of_each));
  if (array.shape(0) == images) return std::vector<T>(array.data(), array.data() + array.size());
  return absl::InvalidArgumentError(
      absl::StrCat(images, " images have ", array.shape(0), " ", what));
}

absl::StatusOr<Batch> ToBatch(const InArray<float>& images, const Answers& answers,
                              const BatchShape& shape) {
  RETURN_IF_ERROR(CheckShape("images", ShapeOf(images), shape.image));
  const size_t count = images.shape(0);
  Batch batch = {.images = {images.data(), images.data() + images.size()},
                 .size = static_cast<int64_t>(count)};
  if (const auto* const targets = std::get_if<InArray<float>>(&answers)) {
    ASSIGN_OR_RETURN(batch.targets, ToVector("targets", *targets, shape.targets, count));
  } else {
    const auto& labels = std::get<InArray<int32_t>>(answers);
    ASSIGN_OR_RETURN(batch.labels, ToVector("labels", labels, shape.labels, count));
  }
  return batch;
}

float Step(HeldSession& held, const InArray<float>& images, const Answers& labels) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<float> {
    ASSIGN_OR_RETURN(const Batch batch, ToBatch(images, labels, held.shape()));
    return session.TrainStep(batch);
  }));
}

void Begin(HeldSession& held, const InArray<float>& images, const Answers& labels) {
  Check(held.Use([&](Session& session) -> absl::Status {
    ASSIGN_OR_RETURN(const Batch batch, ToBatch(images, labels, held.shape()));
    return session.Begin(batch);
  }));
}

StepResult Finish(HeldSession& held) {
  return Checked(held.Use([](Session& session) { return session.Finish(); }));
}

StepResult EvaluateBatch(HeldSession& held, const InArray<float>& images, const Answers& labels) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<StepResult> {
    ASSIGN_OR_RETURN(const Batch batch, ToBatch(images, labels, held.shape()));
    return session.Evaluate(batch);
  }));
}

OutArray<float> PredictBatch(HeldSession& held, const InArray<float>& images, bool probabilities) {
  Prediction prediction = Checked(held.Use([&](Session& session) -> absl::StatusOr<Prediction> {
    RETURN_IF_ERROR(CheckShape("images", ShapeOf(images), held.shape().image));
    return session.Predict({images.data(), images.size()});
  }));
  std::vector<int64_t> shape(prediction.shape.dims().begin(), prediction.shape.dims().end());
  if (held.shape().labels.empty()) shape.resize(2);
  return ToNumpy(std::move(probabilities ? prediction.probabilities : prediction.logits), shape);
}

void Save(HeldSession& held, const Path& path) {
  Check(held.Use([&](Session& session) { return session.Save(path.string()); }));
}

void SaveWeights(HeldSession& held, const Path& path, const std::string& dtype) {
  const DType type = Checked(ParseDType(dtype));
  Check(held.Use([&](Session& session) { return session.SaveWeights(path.string(), type); }));
}

void Load(HeldSession& held, const Path& path) {
  Check(held.Use([&](Session& session) { return session.Load(path.string()); }));
}

// `weights` has an array of any shape for each tensor of a file of weights.
void LoadWeights(HeldSession& held, const nb::dict& weights) {
  NamedValues values;
  for (const auto& [name, given] : weights) {
    const auto array = nb::cast<InArray<float>>(given);
    values[nb::cast<std::string>(name)].assign(array.data(), array.data() + array.size());
  }
  Check(held.Use([&](Session& session) { return session.LoadWeights(values); }));
}

nb::dict StateDict(HeldSession& held) {
  int64_t step = 0;
  std::vector<NamedTensor> weights =
      Checked(held.Use([&](Session& session) -> absl::StatusOr<std::vector<NamedTensor>> {
        step = session.step();
        return session.Weights();
      }));
  constexpr std::string_view kRunningVariance = ".running_var";
  nb::dict state;
  for (NamedTensor& tensor : weights) {
    const std::vector<int64_t> shape(tensor.shape.dims().begin(), tensor.shape.dims().end());
    state[tensor.name.c_str()] = ToNumpy(std::move(tensor.values), shape);
    if (!tensor.name.ends_with(kRunningVariance)) continue;
    const std::string layer = tensor.name.substr(0, tensor.name.size() - kRunningVariance.size());
    state[absl::StrCat(layer, ".num_batches_tracked").c_str()] =
        ToNumpy(std::vector<int64_t>{step}, {});
  }
  return state;
}

void SetBudget(HeldSession& held, const Bytes& budget, bool wait) {
  const int64_t bytes = Checked(ToBytes(budget));
  Check(held.Use([&](Session& session) {
    return wait ? session.SetBudget(bytes) : session.SetBudgetAsync(bytes);
  }));
}

void SetTrainingGraph(HeldSession& held, const Graph& net) {
  Check(held.Use([&](Session& session) -> absl::Status {
    GraphOptions options = net.options();
    options.dtype = session.plan().dtype;
    ASSIGN_OR_RETURN(const Graph graph, held.WithItsLoss(WithOptions(net, options)));
    return session.SetTrainingGraph(graph);
  }));
}

Planned PlanOf(HeldSession& held) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<Planned> {
    return Planned{.plan = session.plan(),
                   .stats = session.planning(),
                   .timeline = session.predicted(),
                   .has_budget = held.has_budget()};
  }));
}

// A property that cannot fail but on a closed session.
template <typename Value>
auto Reader(Value (Session::*read)() const) {
  return [read](HeldSession& held) {
    return Checked(
        held.Use([&](Session& session) -> absl::StatusOr<Value> { return (session.*read)(); }));
  };
}

void BindResults(nb::module_& module) {
  nb::class_<StepResult>(module, "StepResult", "What a step of training has computed.")
      .def_ro("step", &StepResult::step, "From 0.")
      .def_ro("loss", &StepResult::loss, "The mean over the batch.")
      .def_ro("correct", &StepResult::correct, "How many labels were predicted.")
      .def_ro("loss_scale", &StepResult::loss_scale)
      .def_ro("skipped", &StepResult::skipped,
              "fp16: a gradient was not finite, so the step has changed nothing but the scale.");
  nb::class_<MemoryUse>(module, "MemoryUse", "The device memory of a session.")
      .def_ro("predicted_peak_bytes", &MemoryUse::predicted_peak_bytes)
      .def_ro("measured_peak_bytes", &MemoryUse::measured_peak_bytes)
      .def_ro("arena_bytes", &MemoryUse::arena_bytes);
}

LearningRate MakeRate(float base, int64_t warmup_steps, const std::string& decay,
                      int64_t period_steps, float factor) {
  LearningRate rate = {
      .base = base, .warmup_steps = warmup_steps, .period_steps = period_steps, .factor = factor};
  if (decay == "step") {
    rate.decay = LearningRate::Decay::kStep;
  } else if (decay == "cosine") {
    rate.decay = LearningRate::Decay::kCosine;
  } else if (decay != "constant") {
    Raise(absl::InvalidArgumentError(
        absl::StrCat("decay: '", decay.substr(0, 64), "' is not 'constant', 'step' or 'cosine'")));
  }
  return rate;
}

void BindRate(nb::module_& module) {
  nb::class_<LearningRate>(module, "LearningRate",
                           "Rises linearly from 0 over `warmup_steps`, then follows `decay`: "
                           "'constant', 'step' (times `factor`\nafter every `period_steps`) or "
                           "'cosine' (down to 0 at `period_steps`).")
      .def(
          "__init__",
          [](LearningRate* rate, float base, int64_t warmup_steps, const std::string& decay,
             int64_t period_steps, float factor) {
            new (rate) LearningRate(MakeRate(base, warmup_steps, decay, period_steps, factor));
          },
          "base"_a, "warmup_steps"_a = 0, "decay"_a = "constant", "period_steps"_a = 1,
          "factor"_a = 0.1F)
      .def("at", &LearningRate::At, "step"_a);
}

void BindTraining(nb::class_<HeldSession>& session) {
  session.def("_step", Step, "images"_a, "labels"_a)
      .def("_begin", Begin, "images"_a, "labels"_a)
      .def("_finish", Finish)
      .def("_evaluate", EvaluateBatch, "images"_a, "labels"_a)
      .def("_predict", PredictBatch, "images"_a, "probabilities"_a)
      .def("set_budget", SetBudget, "budget"_a, "wait"_a = true,
           "Plans for another budget, which takes effect at the next step. With wait=False, a "
           "thread plans, and steps go on\nwith the old plan until the new one is ready.")
      .def(
          "await_budget",
          [](HeldSession& held) { Check(held.Use([](Session& s) { return s.AwaitBudget(); })); },
          "Waits for the plan of set_budget(wait=False), and raises its refusal.")
      .def("set_training_graph", SetTrainingGraph, "net"_a,
           "Trains another graph from the next step on, for example without some layers.");
}

void BindFiles(nb::class_<HeldSession>& session) {
  session
      .def("save", Save, "path"_a,
           "Writes parameters, running statistics, optimizer and step as a safetensors file.")
      .def("save_weights", SaveWeights, "path"_a, "dtype"_a = "fp32",
           "Writes parameters and running statistics only, which PyTorch loads with strict=True.")
      .def("load", Load, "path"_a, "Reads either kind of file.")
      .def("_load_weights", LoadWeights, "weights"_a)
      .def("state_dict", StateDict, nb::sig("def state_dict(self) -> dict[str, numpy.ndarray]"),
           "Parameters and running statistics, with PyTorch's names and shapes. The arrays are "
           "copies.");
}

void BindProperties(nb::class_<HeldSession>& session) {
  session.def("close", &HeldSession::Close, "Frees the memory. Later calls raise neap.Error.")
      .def_prop_ro("closed", &HeldSession::is_closed)
      .def_prop_ro("batch", &HeldSession::batch, "Images in a batch of training.")
      .def_prop_ro("_reads_targets",
                   [](const HeldSession& held) { return !held.shape().targets.empty(); })
      .def_prop_ro("plan", PlanOf, "The plan of training.")
      .def_prop_ro("steps", Reader(&Session::step), "Steps so far, with those before a load.")
      .def_prop_ro("seed", Reader(&Session::seed))
      .def_prop_ro("memory", Reader(&Session::memory))
      .def_prop_ro("budget_pending", Reader(&Session::budget_pending),
                   "Whether set_budget(wait=False) is still planning.");
}

}  // namespace

void BindSession(nb::module_& module) {
  BindResults(module);
  BindRate(module);
  nb::class_<HeldSession> session(module, "Session");
  session.def("__init__", Construct, "net"_a, "device"_a = nb::none(), "budget"_a = nb::none(),
              "dtype"_a = nb::none(), nb::kw_only(), "lr"_a = 0.01F, "momentum"_a = 0.9F,
              "weight_decay"_a = 0.0F, "seed"_a = 1, "policy"_a = nb::none(),
              "host_budget"_a = nb::none(), "sub_batches"_a = nb::none(),
              "offload_params"_a = false, "strict"_a = false, "inference_only"_a = false,
              "training_only"_a = false, "label_smoothing"_a = 0.0F);
  BindTraining(session);
  BindFiles(session);
  BindProperties(session);
}

}  // namespace neap::python
