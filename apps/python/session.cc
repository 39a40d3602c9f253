// Session, the part of it that is written in C++. apps/python/neap/session.py has the rest.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/python/argument_names.h"
#include "apps/python/arrays.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/graph_changes.h"
#include "apps/python/held_session.h"
#include "apps/python/planned.h"
#include "apps/python/session_steps.h"
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
               bool strict, bool inference_only, bool training_only, int64_t accumulate,
               float label_smoothing, std::optional<Path> database,
               std::optional<std::string> divisions, std::optional<std::string> workspace_rule,
               std::optional<DeviceName> peer, std::optional<Bytes> peer_budget, double measure) {
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
                   .accumulate = accumulate,
                   .inference_only = inference_only,
                   .training_only = training_only},
      .label_smoothing = label_smoothing,
      .measure_seconds = measure};
  new (session) HeldSession(Changed(net, {.dtype = dtype}), arguments);
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

// The owner of each parameter that has another name, too, by that name.
std::map<std::string, std::string> SharedOf(HeldSession& held) {
  return Checked(held.Use([&](Session&) -> absl::StatusOr<std::map<std::string, std::string>> {
    ASSIGN_OR_RETURN(const ResolvedGraph net, Resolve(held.net(), Mode::kInference));
    std::map<std::string, std::string> owners;
    for (const ResolvedLayer& layer : net.layers) {
      for (const SharedParam& shared : layer.shared) owners[shared.param] = shared.owner;
    }
    return owners;
  }));
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
    RETURN_IF_ERROR(held.CheckFeedsOf(net));
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

void BindBudget(nb::class_<HeldSession>& session) {
  session
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
      .def(
          "save_weights", SaveWeights, "path"_a, "dtype"_a = "fp32",
          "Writes parameters and running statistics only, which PyTorch loads with strict=True; "
          "where layers share\nparameters, with strict=False, since these have their owners' names "
          "alone.")
      .def("save_onnx", SaveOnnx, "path"_a,
           "Writes the network as it predicts, with its weights, as an ONNX file: docs/onnx.md.")
      .def("load", Load, "path"_a, "Reads either kind of file.")
      .def("_load_weights", LoadWeights, "weights"_a)
      .def("_shared", SharedOf)
      .def("_ignored", [](HeldSession& held) { return held.net().options().other_files.ignored; })
      .def(
          "exchange_averages",
          [](HeldSession& held) {
            Check(held.Use([](Session& s) { return s.ExchangeAverages(); }));
          },
          "Exchanges the parameters with their averages (`ema`), so that evaluate, predict, "
          "state_dict and save_weights have\nthe averages. A second call exchanges them back, and "
          "load ends this, too; until then, step and save raise an error.")
      .def("state_dict", StateDict, nb::sig("def state_dict(self) -> dict[str, numpy.ndarray]"),
           "Parameters and running statistics, with PyTorch's names and shapes. Parameters that "
           "layers share have\ntheir owners' names alone. The arrays are copies.");
}

void BindProperties(nb::class_<HeldSession>& session) {
  session.def("close", &HeldSession::Close, "Frees the memory. Later calls raise neap.Error.")
      .def_prop_ro("closed", &HeldSession::is_closed, "Whether close() has been called.")
      .def_prop_ro("batch", &HeldSession::batch, "Images in a batch of training.")
      .def_prop_ro(
          "sizes",
          [](HeldSession& held) {
            const auto all =
                Checked(held.Use([](Session& session) -> absl::StatusOr<std::vector<GraphSize>> {
                  return session.sizes();
                }));
            std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes;
            for (const GraphSize& size : all)
              sizes.emplace_back(size.extents[0], size.extents[1], size.batch);
            return sizes;
          },
          "The sizes of the graph, as (height, width, batch).")
      .def_prop_ro("_has_sizes", [](const HeldSession& held) { return held.shape().has_sizes; })
      .def_prop_ro("_reads_tokens",
                   [](const HeldSession& held) { return held.shape().reads_tokens; })
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
      .def_prop_ro("accumulated", Reader(&Session::accumulated),
                   "Batches whose gradients wait for update().")
      .def_prop_ro("seed", Reader(&Session::seed), "That of the arguments, or of a loaded file.")
      .def_prop_ro("memory", Reader(&Session::memory), "Predicted and measured device memory.")
      .def_prop_ro("budget_pending", Reader(&Session::budget_pending),
                   "Whether set_budget(wait=False) is still planning.");
}

}  // namespace

void BindSession(nb::module_& module) {
  BindStepResults(module);
  nb::class_<HeldSession> session(module, "Session");
  session.def("__init__", Construct, "net"_a, "device"_a = nb::none(), "budget"_a = nb::none(),
              "dtype"_a = nb::none(), nb::kw_only(), "lr"_a = 0.01F, "optimizer"_a = "sgd",
              "momentum"_a = nb::none(), "nesterov"_a = false, "betas"_a = nb::none(),
              "eps"_a = nb::none(), "weight_decay"_a = 0.0F, "clip_norm"_a = 0.0F, "ema"_a = 0.0F,
              "seed"_a = 1, "policy"_a = nb::none(), "host_budget"_a = nb::none(),
              "sub_batches"_a = nb::none(), "batch_norm_in_parts"_a = false,
              "offload_params"_a = false, "strict"_a = false, "inference_only"_a = false,
              "training_only"_a = false, "accumulate"_a = 1, "label_smoothing"_a = 0.0F,
              "database"_a = nb::none(), "divisions"_a = nb::none(),
              "workspace_rule"_a = nb::none(), "peer"_a = nb::none(), "peer_budget"_a = nb::none(),
              "measure"_a = kDefaultMeasuringSeconds);
  BindSteps(session);
  BindBudget(session);
  BindFiles(session);
  BindProperties(session);
}

}  // namespace neap::python
