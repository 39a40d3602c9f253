#include "apps/python/session_steps.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/python/arrays.h"
#include "apps/python/errors.h"
#include "neap/core/base/status_macros.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

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

// The height and width of the images that are given, where `extents` ends with those of the
// network's.
void SetSize(const std::vector<int64_t>& image, const std::vector<int64_t>& given,
             std::vector<int64_t>& extents) {
  const bool has_size =
      extents.size() >= 2 && std::equal(image.end() - 2, image.end(), extents.end() - 2);
  if (has_size) std::copy(given.end() - 2, given.end(), extents.end() - 2);
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

// Images on the host, or in the memory of the session's GPU; or tokens.
using Images = std::variant<InArray<float>, InArray<int32_t>, GpuArray<float>>;

// Borrows the images; labels and tokens are copied into the session's own batch, whose memory is
// used again. Only for functions that Use() calls.
absl::StatusOr<const Batch*> ToBatch(HeldSession& held, const Images& given,
                                     const Answers& answers) {
  const BatchShape& shape = held.shape();
  if (!shape.takes_images) {
    return absl::InvalidArgumentError(
        "the network takes other feeds than images and labels; give them by name (step_feeds)");
  }
  Batch& batch = held.given();
  std::vector<int64_t> of_labels = shape.labels, of_targets = shape.targets;
  batch.height = batch.width = 0;
  batch.borrowed = {};
  batch.tokens.clear();
  RETURN_IF_ERROR(std::visit(
      [&](const auto& images) -> absl::Status {
        const std::vector<int64_t> given_shape = ShapeOf(images);
        std::vector<int64_t> of_image = shape.image;
        if (shape.has_sizes && given_shape.size() == 4) {
          batch.height = given_shape[2];
          batch.width = given_shape[3];
          for (std::vector<int64_t>* extents : {&of_image, &of_labels, &of_targets})
            SetSize(shape.image, given_shape, *extents);
        }
        RETURN_IF_ERROR(CheckShape("images", given_shape, of_image));
        batch.size = static_cast<int64_t>(images.shape(0));
        if constexpr (std::is_same_v<std::decay_t<decltype(images)>, InArray<int32_t>>) {
          batch.tokens.assign(images.data(), images.data() + images.size());
        } else {
          batch.borrowed = {images.data(), images.size()};
        }
        return absl::OkStatus();
      },
      given));
  const auto* const on_gpu = std::get_if<GpuArray<float>>(&given);
  batch.on_device = on_gpu != nullptr;
  if (on_gpu != nullptr) RETURN_IF_ERROR(held.CheckReads(on_gpu->device_id()));
  batch.labels.clear();
  batch.targets.clear();
  if (const auto* const targets = std::get_if<InArray<float>>(&answers)) {
    RETURN_IF_ERROR(Assign("targets", *targets, of_targets, batch.size, batch.targets));
  } else {
    const auto& labels = std::get<InArray<int32_t>>(answers);
    RETURN_IF_ERROR(Assign("labels", labels, of_labels, batch.size, batch.labels));
  }
  return &batch;
}

// The functions of a session that take a batch, or feeds, and have a result.
using RunBatch = absl::StatusOr<StepResult> (Session::*)(const Batch& batch);
using RunFeeds = absl::StatusOr<StepResult> (Session::*)(const Feeds& feeds);

template <RunBatch kRun>
StepResult WithBatch(HeldSession& held, const Images& images, const Answers& labels) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<StepResult> {
    ASSIGN_OR_RETURN(const Batch* const batch, ToBatch(held, images, labels));
    return (session.*kRun)(*batch);
  }));
}

StepResult Update(HeldSession& held) {
  return Checked(held.Use([](Session& session) { return session.Update(); }));
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
          if (held.shape().has_sizes) {
            value.shape = ShapeOf(array);
            const bool is_vector = is_known && value.shape.size() == 2;
            if (is_vector) value.shape.resize(expected->second.size() + 1, 1);
          } else if (is_known) {
            RETURN_IF_ERROR(CheckShape(name.c_str(), ShapeOf(array), expected->second));
          }
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

template <RunFeeds kRun>
StepResult WithFeeds(HeldSession& held, const FeedArrays& arrays) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<StepResult> {
    ASSIGN_OR_RETURN(const Feeds feeds, ToFeeds(held, arrays));
    return (session.*kRun)(feeds);
  }));
}

nb::dict LossesOf(const StepResult& result) {
  nb::dict losses;
  for (const LossResult& loss : result.losses) losses[loss.name.c_str()] = loss;
  return losses;
}

nb::dict ToDict(const std::vector<NamedTensor>& tensors) {
  nb::dict outputs;
  for (const NamedTensor& output : tensors) {
    std::vector<int64_t> shape(output.shape.dims().begin(), output.shape.dims().end());
    if (shape.size() == 4 && shape[2] == 1 && shape[3] == 1) shape.resize(2);
    outputs[output.name.c_str()] = ToNumpy(output.values, shape);
  }
  return outputs;
}

nb::dict OutputsOf(const StepResult& result) { return ToDict(result.outputs); }

nb::dict Forward(HeldSession& held, const FeedArrays& arrays) {
  using Outputs = absl::StatusOr<std::vector<NamedTensor>>;
  return ToDict(Checked(held.Use([&](Session& session) -> Outputs {
    ASSIGN_OR_RETURN(const Feeds feeds, ToFeeds(held, arrays));
    return session.Forward(feeds);
  })));
}

// The arrays have the shapes of outputs, of which those of images of one pixel are vectors here.
StepResult Backward(HeldSession& held, const FeedArrays& arrays) {
  return Checked(held.Use([&](Session& session) -> absl::StatusOr<StepResult> {
    ASSIGN_OR_RETURN(Feeds gradients, ToFeeds(held, arrays));
    for (FeedValue& gradient : gradients) gradient.shape.clear();
    return session.Backward(gradients);
  }));
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
    // The array of a tensor of another type or order is a copy, which only in_flight() keeps alive.
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

StepResult EvaluateBatch(HeldSession& held, const Images& images, const Answers& labels) {
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

}  // namespace

void BindStepResults(nb::module_& module) {
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

void BindSteps(nb::class_<HeldSession>& session) {
  session.def("_step", WithBatch<&Session::Step>, "images"_a, "labels"_a)
      .def("_step_feeds", WithFeeds<&Session::Step>, "feeds"_a)
      .def("_accumulate", WithBatch<&Session::Accumulate>, "images"_a, "labels"_a)
      .def("_accumulate_feeds", WithFeeds<&Session::Accumulate>, "feeds"_a)
      .def("_forward", Forward, "feeds"_a)
      .def("_backward", Backward, "gradients"_a)
      .def(
          "skip_backward",
          [](HeldSession& held) { Check(held.Use([](Session& s) { return s.SkipBackward(); })); },
          "Gives up the step that forward() has begun: no parameter has changed, and running "
          "statistics keep what it has changed.")
      .def(
          "discard",
          [](HeldSession& held) { Check(held.Use([](Session& s) { return s.Discard(); })); },
          "Drops the gradients of the batches that wait for update(), without which save() raises "
          "an error.")
      .def("update", Update,
           "Updates the parameters with the gradients of the batches that accumulate() was called "
           "with, which is one step.\nThe result has no losses; in fp16 it says whether the step "
           "was skipped.")
      .def("_evaluate_feeds", WithFeeds<&Session::Evaluate>, "feeds"_a)
      .def("_time_step", TimeStep, "images"_a, "labels"_a)
      .def("_begin", Begin, "images"_a, "labels"_a)
      .def("_finish", Finish)
      .def("_evaluate", EvaluateBatch, "images"_a, "labels"_a)
      .def("_predict", PredictBatch, "images"_a, "probabilities"_a);
}

}  // namespace neap::python
