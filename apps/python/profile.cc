// profile(), and Profile.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/kernel_flags.h"
#include "apps/profile/profiled_net.h"
#include "apps/profile/profiling_devices.h"
#include "apps/python/bindings.h"
#include "apps/python/errors.h"
#include "apps/python/planning_arguments.h"
#include "apps/python/python_layer.h"
#include "apps/python/released.h"
#include "neap/core/base/status_macros.h"

namespace neap::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;
using Path = std::filesystem::path;
using Devices = std::variant<std::vector<DeviceName>, DeviceName>;
using Progress = std::optional<nb::callable>;

// neap.Profile: what profile() has done.
struct Profiled {
  apps::ProfileWork work;
  ProfiledDevice device;
  std::string database;
  double seconds = 0;
};

// Calls Python's function, and notices Ctrl-C, while the library measures without the GIL. What
// Python raises ends the measuring, and is raised again when it has ended.
class Watch {
 public:
  explicit Watch(const Progress& progress) : progress_(progress) {}

  // Whether measuring goes on. Without the GIL.
  bool Report(const apps::ProfileWork& work) {
    if (error_ != nullptr || InterruptIsPending()) return false;
    const bool has_news = work.steps_done != done_;
    done_ = work.steps_done;
    const nb::gil_scoped_acquire acquired;
    try {
      // A signal that another thread has received.
      if (PyErr_CheckSignals() != 0) nb::raise_python_error();
      if (progress_.has_value() && has_news) (*progress_)(work.steps_done, work.steps);
    } catch (const std::exception& /*error*/) {
      error_ = std::current_exception();
    }
    return error_ == nullptr;
  }
  // Needs the GIL.
  void Raise() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  const Progress& progress_;
  int64_t done_ = -1;
  std::exception_ptr error_;
};

std::vector<std::string> NamesOf(const std::optional<Devices>& devices) {
  if (!devices.has_value()) return {""};
  if (const auto* const one = std::get_if<DeviceName>(&*devices))
    return Checked(apps::SplitDevices(one->text));
  std::vector<std::string> names;
  for (const DeviceName& device : std::get<std::vector<DeviceName>>(*devices))
    names.push_back(device.text);
  if (names.empty()) Raise(absl::InvalidArgumentError("device: the list is empty"));
  return Checked(apps::SplitDevices(absl::StrJoin(names, ",")));
}

absl::StatusOr<Profiled> Measure(const apps::ProfiledNet& net,
                                 const std::vector<std::string>& devices,
                                 const std::string& database, const ProfileOptions& options,
                                 const apps::ProfilingDevices::OnProgress& on_progress) {
  const auto begin = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(
      apps::ProfilingDevices opened,
      apps::ProfilingDevices::Open(devices, {.cpu_kernels = PythonKernels()}, database));
  RETURN_IF_ERROR(CheckPythonLayers(net.graph, opened.description()));
  const apps::NoticePrinter notices(opened.database());
  ASSIGN_OR_RETURN(const std::vector<Program> programs, ProgramsOf(net, opened.description()));
  Profiled profiled = {.device = opened.database().device(), .database = opened.database().path()};
  ASSIGN_OR_RETURN(profiled.work, opened.Measure(programs, options, on_progress));
  profiled.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return profiled;
}

int64_t AtLeastOne(const char* name, int64_t number) {
  if (number < 1)
    Raise(absl::InvalidArgumentError(absl::StrCat(name, ": ", number, " is less than 1")));
  return number;
}

ProfileOptions OptionsOf(const std::string& divisions, const std::optional<Bytes>& workspace_limit,
                         int64_t samples, std::optional<int64_t> engines, bool again,
                         bool retry_failed) {
  ProfileOptions options = {
      .samples = AtLeastOne("samples", samples), .again = again, .retry_failed = retry_failed};
  const absl::Status read = apps::ReadDivisions(&options.divisions).read(divisions);
  if (!read.ok()) Raise(Named("divisions", read));
  if (workspace_limit.has_value()) {
    const absl::StatusOr<int64_t> bytes = ToBytes(*workspace_limit);
    if (!bytes.ok()) Raise(Named("workspace_limit", bytes.status()));
    options.workspace_limit_bytes = *bytes;
  }
  if (engines.has_value()) options.engines = AtLeastOne("engines", *engines);
  return options;
}

Profiled ProfileNet(const Graph& net, const std::optional<Devices>& device,
                    const std::optional<Path>& database, const std::string& divisions,
                    const std::optional<Bytes>& workspace_limit, int64_t samples,
                    std::optional<int64_t> engines, bool again, bool retry_failed,
                    int64_t sub_batches, bool batch_norm_in_parts, const std::string& optimizer,
                    std::optional<float> momentum, float clip_norm, float ema,
                    const Progress& progress) {
  const apps::ProfiledNet profiled = {
      .graph = net,
      .optimizer = Checked(PlannedOptimizer(optimizer, momentum, clip_norm, ema)),
      .sub_batches = AtLeastOne("sub_batches", sub_batches),
      .batch_norm_in_parts = batch_norm_in_parts};
  const ProfileOptions options =
      OptionsOf(divisions, workspace_limit, samples, engines, again, retry_failed);
  const std::vector<std::string> names = NamesOf(device);
  const std::string path = database.has_value() ? database->string() : "";
  Watch watch(progress);
  absl::StatusOr<Profiled> result = Released([&] {
    return Measure(profiled, names, path, options,
                   [&](const apps::ProfileWork& work) { return watch.Report(work); });
  });
  watch.Raise();
  return Checked(std::move(result));
}

std::string ToText(const Profiled& profiled) {
  const apps::ProfileWork& work = profiled.work;
  return absl::StrFormat(
      "<neap.Profile of %s: %d engines measured, %d known, %d failed in %.1f s, in %s>",
      profiled.device.name, work.measured, work.known, work.failed, profiled.seconds,
      profiled.database);
}

// A property that is a field of the work.
template <typename Value>
auto Of(Value apps::ProfileWork::*field) {
  return [field](const Profiled& profiled) { return profiled.work.*field; };
}

}  // namespace

void BindProfile(nb::module_& module) {
  nb::class_<Profiled>(module, "Profile", "What neap.profile() has done.")
      .def_prop_ro("steps", Of(&apps::ProfileWork::steps),
                   "Distinct steps, counting each batch of a step.")
      .def_prop_ro("steps_done", Of(&apps::ProfileWork::steps_done), "Those that are measured.")
      .def_prop_ro("measured", Of(&apps::ProfileWork::measured), "Engines that were measured now.")
      .def_prop_ro("known", Of(&apps::ProfileWork::known), "Engines that the database had.")
      .def_prop_ro("failed", Of(&apps::ProfileWork::failed),
                   "Engines that did not build or run; the database says why.")
      .def_prop_ro("left_out", Of(&apps::ProfileWork::left_out),
                   "Engines that were over a hundred times slower than others in similar steps.")
      .def_prop_ro("wide_spreads", Of(&apps::ProfileWork::wide_spreads),
                   "New measurements with a spread above 10%; None if each has one sample.")
      .def_prop_ro(
          "device", [](const Profiled& profiled) { return profiled.device.name; },
          "The device's name in the database.")
      .def_prop_ro(
          "versions", [](const Profiled& profiled) { return profiled.device.versions; },
          "The versions of its libraries.")
      .def_ro("database", &Profiled::database, "The file that has the times.")
      .def_ro("seconds", &Profiled::seconds, "What all of it took.")
      .def("__repr__", ToText);
  module.def(
      "profile", ProfileNet, "net"_a, "device"_a = nb::none(), nb::kw_only(),
      "database"_a = nb::none(), "divisions"_a = std::string(Name(ProfileOptions().divisions)),
      "workspace_limit"_a = nb::none(), "samples"_a = ProfileOptions().samples,
      "engines"_a = nb::none(), "again"_a = false, "retry_failed"_a = false, "sub_batches"_a = 1,
      "batch_norm_in_parts"_a = false, "optimizer"_a = "sgd", "momentum"_a = nb::none(),
      "clip_norm"_a = 0.0F, "ema"_a = 0.0F, "progress"_a = nb::none(),
      "Measures how long each engine of each step of training and evaluating the network takes, as "
      "`neap profile` does, for plans\nand sessions to choose by. Times are kept in `database` (a "
      "file; None: the default) and not measured again.\n\n"
      "`device` is that of Session, or a list of GPUs of one model, which share the work: "
      "[\"cuda:0\", \"cuda:1\"]. `divisions` says\non which parts of a batch convolutions are "
      "measured: \"undivided\", \"power-of-two\" or \"all\". Engines that need more\nworkspace "
      "than "
      "`workspace_limit` (2GiB) are left out; of each step, only the first `engines` that the "
      "library recommends\nare measured, and those that need less workspace than all before them; "
      "`samples` is the least number for a median. `again`\nrepeats measurements, `retry_failed` "
      "failures. The optimizer's arguments are those of Session on which memory depends.\n\n"
      "`progress(done, total)` is called after each step. Ctrl-C ends the work between two "
      "samples; "
      "what was measured is kept, and\nthe same call continues from there.");
}

}  // namespace neap::python
