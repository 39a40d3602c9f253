#include "neap/layers/profile/kernel_timer.h"

#include <doctest/doctest.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/layers/cpu/cpu_device.h"
#include "tests/layers/profile/scripted_device.h"

namespace neap {
namespace {

// Times a kernel whose runs take `run_us`, beginning with the warm-up and repeating the last, with
// at least 7 samples.
absl::StatusOr<KernelTime> TimeOf(std::vector<double> run_us, double hopeless_seconds = 1) {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  ScriptedDevice device(*cpu, {{{.id = "engine"}, std::move(run_us)}});
  const std::unique_ptr<Kernel> kernel = device.MakeKernel(AdditionSignature({}), "engine").value();
  return KernelTimer(device, 7).Time(*kernel, {KernelArgs{}}, hopeless_seconds);
}

TEST_CASE("a kernel's time is the median of samples, without the warm-up") {
  const KernelTime time = TimeOf({50e3, 1000}).value();
  CHECK(time.median_seconds == doctest::Approx(1e-3));
  CHECK(time.spread == 0);
  CHECK(time.samples == 7);
}

TEST_CASE("a short kernel runs often enough that a sample takes 400 us") {
  // Warm-up and a first run, then samples of 40 runs, every second of which takes three times as
  // long.
  std::vector<double> run_us = {10, 10};
  for (int i = 0; i < 8 * 40; ++i) run_us.push_back(i % 2 == 0 ? 5 : 15);
  const KernelTime time = TimeOf(run_us).value();
  CHECK(time.median_seconds == doctest::Approx(10e-6));
  CHECK(time.spread < 1e-9);
  CHECK(time.samples == 7);
}

TEST_CASE("the runs of a sample are replayed where the device records, so launches do not count") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  ScriptedDevice device(*cpu, {{{.id = "engine"}, {10}}, {{.id = "long"}, {1000}}});
  device.launch_us = 5;
  const auto seconds_of = [&](std::string_view engine) {
    const std::unique_ptr<Kernel> kernel = device.MakeKernel(AdditionSignature({}), engine).value();
    return KernelTimer(device, 7).Time(*kernel, {KernelArgs{}}).value().median_seconds;
  };
  CHECK(seconds_of("engine") == doctest::Approx(15e-6));
  device.records = true;
  CHECK(seconds_of("engine") == doctest::Approx(10e-6));
  CHECK(seconds_of("long") == doctest::Approx(1005e-6));  // a sample is one run, launched
}

TEST_CASE("one long wait at first changes nothing") {
  CHECK(TimeOf({100, 12e3, 100}).value().median_seconds == doctest::Approx(100e-6));
  CHECK(TimeOf({2e3, 12e3, 2e3}).value().median_seconds == doctest::Approx(2e-3));
}

TEST_CASE("samples that disagree are followed by more, up to three times as many") {
  // After the warm-up samples of 1, 2, 1, 1, ... runs.
  const KernelTime settled = TimeOf({1000, 1000, 1500, 1500, 1000, 1500, 1000, 1500, 1000}).value();
  CHECK(settled.median_seconds == doctest::Approx(1e-3));
  CHECK(settled.spread <= 0.02);
  CHECK(settled.samples > 7);
  CHECK(settled.samples < 21);
  std::vector<double> never = {1000, 1000, 1500, 1500};
  for (int i = 0; i < 30; ++i) never.push_back(i % 2 == 0 ? 1000 : 1500);
  const KernelTime unsettled = TimeOf(never).value();
  CHECK(unsettled.samples == 21);
  CHECK(unsettled.median_seconds == doctest::Approx(1e-3));  // of 11 short and 10 long samples
  CHECK(unsettled.spread == doctest::Approx(0.5));
}

TEST_CASE("timing stops after two hopeless samples, but not after one") {
  CHECK(TimeOf({9000}, 9e-3).value().samples == 1);
  CHECK(TimeOf({9000, 12000, 9000}, 9e-3).value().median_seconds == doctest::Approx(9e-3));
  CHECK(TimeOf({9000}, 9e-3).value().median_seconds == doctest::Approx(9e-3));
  CHECK(TimeOf({9000, 9000, 1000}, 9e-3).value().samples >= 7);
}

TEST_CASE("timing stops after one hopeless sample if the warm-up cannot be start-up cost") {
  CHECK(TimeOf({6e6, 6e6, 1000}, 1).value().samples == 1);
  CHECK(TimeOf({6e6, 1000}, 1).value().samples >= 7);  // it was the start of a library
  CHECK(TimeOf({6e6, 1000}, 7).value().samples >= 7);  // not hopeless
}

// How often the kernel ran.
int64_t RunsOf(std::vector<double> run_us, double hopeless_seconds) {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  ScriptedDevice device(*cpu, {{{.id = "engine"}, std::move(run_us)}});
  const std::unique_ptr<Kernel> kernel = device.MakeKernel(AdditionSignature({}), "engine").value();
  int64_t runs = 0;
  CHECK(KernelTimer(device, 7)
            .Time(*kernel, {KernelArgs{}}, hopeless_seconds, [&] { return ++runs > 0; })
            .ok());
  return runs;
}

TEST_CASE("what takes ten times as long as is hopeless runs twice, or once if it takes too long") {
  CHECK(RunsOf({90e3}, 9e-3) == 2);
  CHECK(RunsOf({90e3, 1000}, 9e-3) > 2);  // the warm-up loaded code
  CHECK(RunsOf({1000, 90e3, 1000}, 9e-3) > 2);
  CHECK(RunsOf({6e6}, 9e-3) == 2);
  CHECK(RunsOf({11e6}, 9e-3) == 1);
  CHECK(RunsOf({11e6}, 2) == 2);  // five times as long
}

TEST_CASE("a hopeless warm-up that is too long for a start-up is a time, if it is all there is") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  const auto stopped_after_one = [&](double run_us, double hopeless_seconds) {
    ScriptedDevice device(*cpu, {{{.id = "engine"}, {run_us}}});
    const std::unique_ptr<Kernel> kernel =
        device.MakeKernel(AdditionSignature({}), "engine").value();
    int left = 1;
    return KernelTimer(device, 7).Time(*kernel, {KernelArgs{}}, hopeless_seconds,
                                       [&] { return left-- > 0; });
  };
  CHECK(stopped_after_one(8e6, 1)->median_seconds == doctest::Approx(8));
  CHECK(stopped_after_one(8e6, 1)->samples == 1);
  CHECK(absl::IsCancelled(stopped_after_one(4e6, 1).status()));  // may be a start-up
  CHECK(absl::IsCancelled(stopped_after_one(8e6, 9).status()));  // not hopeless
}

TEST_CASE("timing can be stopped between two samples") {
  const std::unique_ptr<CpuDevice> cpu = CpuDevice::Open().value();
  ScriptedDevice device(*cpu, {{{.id = "engine"}, {1000}}});
  const std::unique_ptr<Kernel> kernel = device.MakeKernel(AdditionSignature({}), "engine").value();
  int left = 3;
  const auto time =
      KernelTimer(device, 7).Time(*kernel, {KernelArgs{}}, 1, [&] { return left-- > 0; });
  CHECK(absl::IsCancelled(time.status()));
  CHECK(left == -1);
}

TEST_CASE("a kernel that fails has no time") {
  CHECK(TimeOf({-1}).status().code() == absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace neap
