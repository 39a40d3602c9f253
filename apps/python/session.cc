// Session, the part of it that is written in C++. apps/python/neap/session.py has the rest.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/python/argument_names.h"
#include "apps/python/arrays.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/graph_changes.h"
#include "apps/python/held_session.h"
#include "apps/python/planned.h"
#include "apps/python/training_arguments.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/with_options.h"
#include "neap/memory/measuring/measure_kernels.h"
#include "neap/nets/onnx/onnx_file.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;
using Path = std::filesystem::path;

void Construct(HeldSession* session, const Graph& net, std::optional<DeviceName> device,
               std::optional<Bytes> budget, const std::optional<DTypeName>& dtype, const Rate& rate,
               const std::string& rule, std::optional<float> momentum, bool nesterov,
               const std::optional<std::pair<float, float>>& betas, std::optional<float> epsilon,
               float weight_decay, float clip_norm, float ema, uint64_t seed,
               std::optional<std::string> policy, std::optional<Bytes> host_budget,
               std::optional<int64_t> sub_batches, bool batch_norm_in_parts, bool offload_params,
               bool strict, bool inference_only, bool training_only, float label_smoothing,
               std::optional<Path> database, std::optional<std::string> divisions,
               std::optional<std::string> workspace_rule, std::optional<DeviceName> peer,
               std::optional<Bytes> peer_budget, double measure) {
  Optimizer optimizer = Checked(ToOptimizer(rule, momentum, nesterov, betas, epsilon));
  optimizer.weight_decay = weight_decay;
  optimizer.clip_norm = clip_norm;
  optimizer.average_decay = ema;
  const SessionArguments arguments = {
      .planning = {.device = std::move(device),
                   .budget = std::move(budget),
                   .host_budget = std::move(host_budget),
                   .policy = std::move(policy),
                   .sub_batches = sub_batches,
                   .batch_norm_in_parts = batch_norm_in_parts,
                   .offload_params = offload_params,
                   .strict = strict,
                   .times = {.database = std::move(database),
                             .divisions = std::move(divisions),
                             .workspace_rule = std::move(workspace_rule)},
                   .peer = std::move(peer),
                   .peer_budget = std::move(peer_budget)},
      .training = {.optimizer = optimizer,
                   .learning_rate = ToLearningRate(rate),
                   .seed = seed,
                   .inference_only = inference_only,
                   .training_only = training_only},
      .label_smoothing = label_smoothing,
      .measure_seconds = measure};
  new (session) HeldSession(Changed(net, {.dtype = dtype}), arguments);
}

// Errors: INVALID_ARGUMENT for an array that is not some number of `what` of the given shape. An
// image of one pixel is a vector of channels.
absl::Status CheckShape(const char* what, const std::vector<int64_t>& shape,
                        const std::vector<int64_t>& of_each) {
  const bool are_vectors =
      shape.size() == 2 && of_each.size() == 3 && of_each[1] == 1 && of_each[2] == 1;
  const bool fits = are_vectors ? shape[1] == of_each[0]
                                : shape.size() == of_each.size() + 1 &&
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
absl::Status Assign(const char* what, const InArray<T>& array, const std::vector<int64_t>& of_each,
                    int64_t images, std::vector<T>& values) {
  RETURN_IF_ERROR(CheckShape(what, ShapeOf(array), of_each));
  if (static_cast<int64_t>(array.shape(0)) != images) {
    return absl::InvalidArgumentError(
        absl::StrCat(images, " images have ", array.shape(0), " ", what));
  }
  values.assign(array.data(), array.data() + array.size());
  return absl::OkStatus();
}

// Images on the host, or in the memory of the session's GPU.
using Images = std::variant<InArray<float>, GpuArray<float>>;

// Borrows the images; labels are copied into the session's own batch, whose memory is used again.
// Only for functions that Use() calls.
absl::StatusOr<const Batch*> ToBatch(HeldSession& held, const Images& given,
                                     const Answers& answers) {
  const BatchShape& shape = held.shape();
  if (!shape.takes_images) {
    return absl::InvalidArgumentError(
        "the network takes other feeds than images and labels; give them by name (step_feeds)");
  }
  Batch& batch = held.given();
  RETURN_IF_ERROR(std::visit(
      [&](const auto& images) -> absl::Status {
        RETURN_IF_ERROR(CheckShape("images", ShapeOf(images), shape.image));
        batch.size = static_cast<int64_t>(images.shape(0));
        batch.borrowed = {images.data(), images.size()};
        return absl::OkStatus();
      },
      given));
  const auto* const on_gpu = std::get_if<GpuArray<float>>(&given);
  batch.on_device = on_gpu != nullptr;
  if (on_gpu != nullptr) RETURN_IF_ERROR(held.CheckReads(on_gpu->device_id()));
  batch.labels.clear();
  batch.targets.clear();
  if (const auto* const targets = std::get_if<InArray<float>>(&answers)) {
    RETURN_IF_ERROR(Assign("targets", *targets, shape.targets, batch.size, batch.targets));
  } else {
    const auto& labels = std::get<InArray<int32_t>>(answers);
    RETURN_IF_ERROR(Assign("labels", labels, shape.labels, batch.size, batch.labels));
  }
  return &batch;
}

StepResult Step(HeldSession& held, const Images& images, const Answers& labels) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<StepResult> {
    ASSIGN_OR_RETURN(const Batch* const batch, ToBatch(held, images, labels));
    RETURN_IF_ERROR(session.Begin(*batch));
    return session.Finish();
  }));
}

// Feeds of an array each, in the order of the names. Only for functions that Use() calls.
using FeedArrays = std::vector<
    std::pair<std::string, std::variant<InArray<float>, InArray<int32_t>, GpuArray<float>>>>;
absl::StatusOr<Feeds> ToFeeds(HeldSession& held, const FeedArrays& arrays) {
  Feeds feeds;
  for (const auto& [name, given] : arrays) {
    FeedValue& value = feeds.emplace_back(FeedValue{.name = name});
    RETURN_IF_ERROR(std::visit(
        [&](const auto& array) -> absl::Status {
          const auto expected = held.shape().feeds.find(name);
          const bool is_known = expected != held.shape().feeds.end();
          if (is_known) RETURN_IF_ERROR(CheckShape(name.c_str(), ShapeOf(array), expected->second));
          if constexpr (std::is_same_v<std::decay_t<decltype(array)>, InArray<int32_t>>) {
            value.integers = {array.data(), array.size()};
          } else {
            value.floats = {array.data(), array.size()};
          }
          if constexpr (std::is_same_v<std::decay_t<decltype(array)>, GpuArray<float>>) {
            value.on_device = true;
            return held.CheckReads(array.device_id());
          }
          return absl::OkStatus();
        },
        given));
  }
  return feeds;
}

StepResult StepFeeds(HeldSession& held, const FeedArrays& arrays) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<StepResult> {
    ASSIGN_OR_RETURN(const Feeds feeds, ToFeeds(held, arrays));
    return session.Step(feeds);
  }));
}

StepResult EvaluateFeeds(HeldSession& held, const FeedArrays& arrays) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<StepResult> {
    ASSIGN_OR_RETURN(const Feeds feeds, ToFeeds(held, arrays));
    return session.Evaluate(feeds);
  }));
}

nb::dict LossesOf(const StepResult& result) {
  nb::dict losses;
  for (const LossResult& loss : result.losses) losses[loss.name.c_str()] = loss;
  return losses;
}

nb::dict OutputsOf(const StepResult& result) {
  nb::dict outputs;
  for (const NamedTensor& output : result.outputs) {
    std::vector<int64_t> shape(output.shape.dims().begin(), output.shape.dims().end());
    if (shape.size() == 4 && shape[2] == 1 && shape[3] == 1) shape.resize(2);
    outputs[output.name.c_str()] = ToNumpy(output.values, shape);
  }
  return outputs;
}

// Trains as Step() does; returns the seconds in the library, without what this package adds.
double TimeStep(HeldSession& held, const Images& images, const Answers& labels) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<double> {
    ASSIGN_OR_RETURN(const Batch* const batch, ToBatch(held, images, labels));
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(session.TrainStep(*batch).status());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }));
}

void Begin(HeldSession& held, const Images& images, const Answers& labels) {
  Check(held.Use([&](Session& session) -> absl::Status {
    ASSIGN_OR_RETURN(const Batch* const batch, ToBatch(held, images, labels));
    RETURN_IF_ERROR(session.Begin(*batch));
    // Of a tensor of another type or order, these are a copy that only this call and they have.
    const auto* const on_gpu = std::get_if<GpuArray<float>>(&images);
    held.in_flight().push_back(on_gpu == nullptr ? std::nullopt : std::optional(*on_gpu));
    return absl::OkStatus();
  }));
}

StepResult Finish(HeldSession& held) {
  return Checked(held.Use([&](Session& session) {
    absl::StatusOr<StepResult> result = session.Finish();
    if (!held.in_flight().empty()) held.in_flight().pop_front();
    return result;
  }));
}

StepResult EvaluateBatch(HeldSession& held, const InArray<float>& images, const Answers& labels) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<StepResult> {
    ASSIGN_OR_RETURN(const Batch* const batch, ToBatch(held, images, labels));
    return session.Evaluate(*batch);
  }));
}

OutArray<float> PredictBatch(HeldSession& held, const InArray<float>& images, bool probabilities) {
  Prediction prediction = Checked(held.Use([&](Session& session) -> absl::StatusOr<Prediction> {
    RETURN_IF_ERROR(CheckShape("images", ShapeOf(images), held.shape().image));
    return session.Predict({images.data(), images.size()});
  }));
  std::vector<int64_t> shape = held.shape().predictions;
  shape.insert(shape.begin(), prediction.shape.n());
  return ToNumpy(std::move(probabilities ? prediction.probabilities : prediction.logits), shape);
}

void Save(HeldSession& held, const Path& path) {
  Check(held.Use([&](Session& session) { return session.Save(path.string()); }));
}

void SaveWeights(HeldSession& held, const Path& path, const DTypeName& dtype) {
  const DType type = dtype.Parsed();
  Check(held.Use([&](Session& session) { return session.SaveWeights(path.string(), type); }));
}

void SaveOnnx(HeldSession& held, const Path& path) {
  Check(held.Use([&](Session& session) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<NamedTensor> weights, session.Weights());
    NamedValues values;
    for (NamedTensor& tensor : weights) values[tensor.name] = std::move(tensor.values);
    return nets::WriteOnnx(path.string(), held.net(), values);
  }));
}

void Load(HeldSession& held, const Path& path) {
  Check(held.Use([&](Session& session) { return session.Load(path.string()); }));
}

// `weights` has an array of any shape for each tensor of a file of weights.
void LoadWeights(HeldSession& held, const nb::dict& weights) {
  const NamedValues values = ToValues(weights);
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

float RateOf(HeldSession& held) {
  return Checked(held.Use([](Session& session) -> absl::StatusOr<float> {
    return session.learning_rate().At(session.step());
  }));
}

void SetRate(HeldSession& held, const Rate& rate) {
  const LearningRate given = ToLearningRate(rate);
  Check(held.Use([&](Session& session) { return session.SetLearningRate(given); }));
}

void BindResults(nb::module_& module) {
  nb::class_<LossResult>(module, "LossResult", "One of the losses of a network.")
      .def_ro("loss", &LossResult::loss, "The mean over the batch, without the weight.")
      .def_ro("weight", &LossResult::weight, "Its weight in the sum of all losses.")
      .def_ro("correct", &LossResult::correct, "How many labels were predicted.")
      .def_ro("labels", &LossResult::labels,
              "In evaluation: how many labels are classes, or elements have targets.");
  nb::class_<StepResult>(module, "StepResult", "What a step of training has computed.")
      .def_ro("step", &StepResult::step, "Its number, from 0.")
      .def_ro("loss", &StepResult::loss, "The sum of the losses, each times its weight.")
      .def_prop_ro("losses", LossesOf, nb::sig("def losses(self) -> dict[str, LossResult]"),
                   "Each loss, by the name of its layer.")
      .def_prop_ro("outputs", OutputsOf, nb::sig("def outputs(self) -> dict[str, numpy.ndarray]"),
                   "What the layers of Graph.output() have computed, by name.")
      .def_ro("correct", &StepResult::correct, "How many labels of the first loss were predicted.")
      .def_ro("labels", &StepResult::labels,
              "In evaluation: how many labels are classes, or elements have targets.")
      .def_ro("used_loss_scale", &StepResult::used_loss_scale,
              "fp16: by which the loss of this step was multiplied; at least 1.")
      .def_ro("loss_scale", &StepResult::loss_scale,
              "fp16: by which the loss of the next step is multiplied.")
      .def_ro("skipped", &StepResult::skipped,
              "fp16: a gradient was not finite, so the step has changed nothing but the scale.");
  nb::class_<MemoryUse>(module, "MemoryUse", "The device memory of a session.")
      .def_ro("predicted_peak_bytes", &MemoryUse::predicted_peak_bytes, "That of the plan.")
      .def_ro("measured_peak_bytes", &MemoryUse::measured_peak_bytes,
              "The largest that the steps have touched.")
      .def_ro("arena_bytes", &MemoryUse::arena_bytes, "What is reserved.");
}

void BindTraining(nb::class_<HeldSession>& session) {
  session.def("_step", Step, "images"_a, "labels"_a)
      .def("_step_feeds", StepFeeds, "feeds"_a)
      .def("_evaluate_feeds", EvaluateFeeds, "feeds"_a)
      .def("_time_step", TimeStep, "images"_a, "labels"_a)
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
      .def("save_onnx", SaveOnnx, "path"_a,
           "Writes the network as it predicts, with its weights, as an ONNX file: docs/onnx.md.")
      .def("load", Load, "path"_a, "Reads either kind of file.")
      .def("_load_weights", LoadWeights, "weights"_a)
      .def(
          "exchange_averages",
          [](HeldSession& held) {
            Check(held.Use([](Session& s) { return s.ExchangeAverages(); }));
          },
          "Exchanges the parameters with their averages (`ema`), so that evaluate, predict, "
          "state_dict and save_weights have\nthe averages. A second call exchanges them back, and "
          "load ends this, too; until then, step and save raise an error.")
      .def("state_dict", StateDict, nb::sig("def state_dict(self) -> dict[str, numpy.ndarray]"),
           "Parameters and running statistics, with PyTorch's names and shapes. The arrays are "
           "copies.");
}

void BindProperties(nb::class_<HeldSession>& session) {
  session.def("close", &HeldSession::Close, "Frees the memory. Later calls raise neap.Error.")
      .def_prop_ro("closed", &HeldSession::is_closed, "Whether close() has been called.")
      .def_prop_ro("batch", &HeldSession::batch, "Images in a batch of training.")
      .def_prop_ro("_reads_targets",
                   [](const HeldSession& held) { return !held.shape().targets.empty(); })
      .def_prop_ro("_image_shape",
                   [](const HeldSession& held) { return nb::tuple(nb::cast(held.shape().image)); })
      .def_prop_ro(
          "_prediction_shape",
          [](const HeldSession& held) { return nb::tuple(nb::cast(held.shape().predictions)); })
      .def_prop_rw("_rate", RateOf, SetRate)
      .def_prop_ro("plan", PlanOf, "The plan of training.")
      .def_prop_ro("steps", Reader(&Session::step), "Steps so far, with those before a load.")
      .def_prop_ro("seed", Reader(&Session::seed), "That of the arguments, or of a loaded file.")
      .def_prop_ro("memory", Reader(&Session::memory), "Predicted and measured device memory.")
      .def_prop_ro("budget_pending", Reader(&Session::budget_pending),
                   "Whether set_budget(wait=False) is still planning.");
}

}  // namespace

void BindSession(nb::module_& module) {
  BindResults(module);
  nb::class_<HeldSession> session(module, "Session");
  session.def("__init__", Construct, "net"_a, "device"_a = nb::none(), "budget"_a = nb::none(),
              "dtype"_a = nb::none(), nb::kw_only(), "lr"_a = 0.01F, "optimizer"_a = "sgd",
              "momentum"_a = nb::none(), "nesterov"_a = false, "betas"_a = nb::none(),
              "eps"_a = nb::none(), "weight_decay"_a = 0.0F, "clip_norm"_a = 0.0F, "ema"_a = 0.0F,
              "seed"_a = 1, "policy"_a = nb::none(), "host_budget"_a = nb::none(),
              "sub_batches"_a = nb::none(), "batch_norm_in_parts"_a = false,
              "offload_params"_a = false, "strict"_a = false, "inference_only"_a = false,
              "training_only"_a = false, "label_smoothing"_a = 0.0F, "database"_a = nb::none(),
              "divisions"_a = nb::none(), "workspace_rule"_a = nb::none(), "peer"_a = nb::none(),
              "peer_budget"_a = nb::none(), "measure"_a = kDefaultMeasuringSeconds);
  BindTraining(session);
  BindFiles(session);
  BindProperties(session);
}

}  // namespace neap::python
