#include "apps/python/held_session.h"

#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/kernel_flags.h"
#include "apps/python/errors.h"
#include "apps/python/planned.h"
#include "apps/python/python_layer.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/source.h"
#include "neap/memory/create_session.h"
#include "neap/memory/measuring/measured_session.h"
#include "neap/nets/with_loss.h"

namespace neap::python {
namespace {

// The extents but the batch.
std::vector<int64_t> OfImage(const Shape& shape) {
  return {shape.dims().begin() + 1, shape.dims().end()};
}

absl::StatusOr<BatchShape> ShapeOf(const Graph& net) {
  ASSIGN_OR_RETURN(const ResolvedGraph resolved, Resolve(net, Mode::kInference));
  BatchShape shape = {.has_sizes = !net.sizes().empty()};
  int inputs = 0;
  for (const ResolvedLayer& layer : resolved.layers) {
    if (layer.role == LayerRole::kFeed) shape.feeds[layer.name] = OfImage(layer.spec.output.shape);
    inputs += layer.role == LayerRole::kFeed && !layer.is_target ? 1 : 0;
    if (layer.role == LayerRole::kLoss && shape.predictions.empty())
      shape.predictions = OfImage(resolved.SpecOf(layer.inputs[0]).shape);
    if (layer.role != LayerRole::kFeed) continue;
    if (!layer.is_target) shape.image = OfImage(layer.spec.output.shape);
    if (!layer.is_target) shape.reads_tokens = layer.spec.output.dtype == DType::kInt32;
    if (!layer.is_target) continue;
    const Shape& read = layer.spec.output.shape;
    const bool is_targets = layer.spec.output.dtype == DType::kFp32;
    shape.labels = OfImage(is_targets ? LabelShape(read) : read);
    if (!is_targets) continue;
    shape.targets = OfImage(read);
    if (shape.labels.empty()) shape.targets.resize(1);
  }
  shape.takes_images = inputs == 1 && shape.feeds.size() == 2;
  shape.reads_tokens = shape.takes_images && shape.reads_tokens;
  if (shape.takes_images && shape.labels.empty()) shape.predictions.resize(1);
  return shape;
}

// A session by the known times and those that it measures now, until Ctrl-C.
absl::StatusOr<Session> Measured(const Graph& graph, Device& device, PlannerOptions options,
                                 const SessionArguments& arguments, const std::string& database) {
  options.kernels.timings = nullptr;  // it reads the same again
  const SessionMeasuring measuring = {
      .seconds = arguments.measure_seconds,
      .database = database,
      .on_progress = [](const MeasuringReport& /*report*/) { return !InterruptIsPending(); },
      .on_notice = [](const std::string& notice) { absl::FPrintF(stderr, "neap: %s\n", notice); }};
  return CreateMeasuredSession(graph, device, std::move(options), arguments.training, measuring);
}

}  // namespace

absl::StatusOr<HeldSession::Open> HeldSession::MakeOpen(const Graph& net,
                                                        const SessionArguments& arguments) const {
  ASSIGN_OR_RETURN(const apps::PlanningFlags flags, FlagsOf(arguments.planning));
  if (!(arguments.measure_seconds >= 0))  // NaN is not
    return absl::InvalidArgumentError("measure: it must be a number of seconds, at least 0");
  ASSIGN_OR_RETURN(
      std::unique_ptr<Device> device,
      apps::OpenDevice(flags.device, {.peer = flags.peer, .cpu_kernels = PythonKernels()}));
  RETURN_IF_ERROR(CheckPythonLayers(net, device->description()));
  const bool measures = arguments.measure_seconds > 0 && !flags.strict &&
                        flags.kernels.reads_database() && device->description().kind != "cpu";
  if (measures && !flags.kernels.database.empty()) {
    // A new file for the times that are about to be measured.
    RETURN_IF_ERROR(
        apps::OpenProfile(flags.kernels.database, device->description(), device->backend())
            .status());
  }
  ASSIGN_OR_RETURN(const KernelOptions kernels,
                   flags.kernels.Options(device->description(), device->backend()));
  PlannerOptions options = flags.Options(device->description(), kernels);
  ASSIGN_OR_RETURN(const Graph graph, WithItsLoss(net));
  ASSIGN_OR_RETURN(
      options.budget_bytes,
      BudgetFor(graph, flags, arguments.training.optimizer, options, device->description(),
                device->backend(), arguments.training.accumulate));
  ASSIGN_OR_RETURN(Session session,
                   measures ? Measured(graph, *device, options, arguments, flags.kernels.database)
                            : CreateSession(graph, *device, options, arguments.training));
  std::optional<int> gpu = apps::GpuIndex(flags.device);
  if (!gpu.has_value() && device->description().kind == "cuda") gpu = 0;
  return Open{.device = std::move(device), .session = std::move(session), .net = net, .gpu = gpu};
}

absl::Status HeldSession::CheckReads(int index) const {
  if (open_->gpu == index) return absl::OkStatus();
  const std::string own = open_->gpu.has_value() ? absl::StrCat("cuda:", *open_->gpu) : "cpu";
  return absl::InvalidArgumentError(absl::StrCat("the images are in the memory of cuda:", index,
                                                 ", but the session's device is ", own));
}

absl::Status HeldSession::CheckFeedsOf(const Graph& net) const {
  ASSIGN_OR_RETURN(const BatchShape shape, ShapeOf(net));
  bool fits = net.options().batch == batch_;
  for (const auto& [name, extents] : shape.feeds) {
    const auto known = shape_.feeds.find(name);
    fits = fits && (known == shape_.feeds.end() || known->second == extents);
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a training graph has the batch and the sizes of inputs of the session's network; "
      "Graph.sizes() adds other ones");
}

HeldSession::HeldSession(const Graph& net, const SessionArguments& arguments)
    : shape_(Checked(ShapeOf(net))),
      label_smoothing_(arguments.label_smoothing),
      batch_(net.options().batch),
      has_budget_(arguments.planning.budget.has_value()),
      open_(Checked(Released([&] { return MakeOpen(net, arguments); }))) {}

absl::StatusOr<Graph> HeldSession::WithItsLoss(const Graph& net) const {
  return label_smoothing_ == 0 ? net : nets::WithLabelSmoothing(net, label_smoothing_);
}

void HeldSession::Close() {
  Released([&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_.reset();
  });
}

bool HeldSession::is_closed() {
  return Released([&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !open_.has_value();
  });
}

}  // namespace neap::python
