// Kernel times that come with the library: how their text is read, that the times of the H200 are
// right, and that measured times come before them.
#include "neap/layers/profile/installed_profile.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "neap/core/program/passes.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/layers/catalog/measured_catalog.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/profile/installed_timings.h"
#include "neap/layers/profile/profile_steps.h"
#include "neap/nets/registry.h"
#include "tests/layers/made_up_timings.h"

namespace neap {
namespace {

using doctest::Approx;
using testing::MadeUpTimings;

constexpr char kVersions[] = "cuDNN 9.19.0, cuBLASLt 13.1.0";  // that were measured on an H200

// Three operations: "conv a=1", "conv a=2 b" and "conv b".
constexpr char kText[] =
    "neap installed profile 1\n"
    "device made up\n"
    "versions 1, 2\n"
    "pieces 5\nconv\n b\n a=\n1\n2\n"
    "engines 2\nfast\nslow\n"
    "operations 3\n"
    "0 0 0 2 3:8,0 4096 1.5,1~  20;16,0 8192 2.75\n"
    "2 0 4 1:1,1  1e+03\n"
    "1 1:1,1  7\n";

bool Holds(const TimedEngine& row, const TimedEngine& expected) {
  return row.engine == expected.engine && row.batch == expected.batch &&
         row.workspace_bytes == expected.workspace_bytes &&
         row.seconds == Approx(expected.seconds).epsilon(1e-9) &&
         row.deterministic == expected.deterministic && row.source == expected.source;
}

TEST_CASE("a text's operations share pieces with the line before, and rows have all columns") {
  const absl::StatusOr<InstalledProfile> profile = InstalledProfile::Parse(kText);
  const std::string error(profile.status().message());
  CAPTURE(error);
  REQUIRE(profile.ok());
  CHECK(profile->device().name == "made up");
  CHECK(profile->device().versions == "1, 2");
  CHECK(profile->operations() == 3);
  const std::vector<TimedEngine> rows = profile->Of("conv a=1");
  REQUIRE(rows.size() == 3);
  CHECK(Holds(rows[0], {"fast", 8, 4096, 1.5e-6}));
  CHECK(Holds(rows[1], {"slow", 8, 0, 20e-6, /*deterministic=*/false}));
  CHECK(Holds(rows[2], {"fast", 16, 8192, 2.75e-6}));
  REQUIRE(profile->Of("conv a=2 b").size() == 1);
  CHECK(Holds(profile->Of("conv a=2 b").front(), {"slow", 1, 0, 1e-3}));
  REQUIRE(profile->Of("conv b").size() == 1);
  CHECK(profile->Of("conv a=2").empty());
  CHECK(profile->Of("").empty());
}

TEST_CASE("a malformed text is an error that names the line") {
  const auto line_of = [](const std::string& from, const std::string& to) {
    const std::string text = absl::StrReplaceAll(kText, {{from, to}});
    CAPTURE(text);
    REQUIRE(text != kText);
    const absl::Status status = InstalledProfile::Parse(text).status();
    CHECK(absl::IsInvalidArgument(status));
    const std::string message(status.message());
    const std::string before = "installed profile: line ";
    REQUIRE(message.starts_with(before));
    return std::stoi(message.substr(before.size()));
  };
  CHECK(line_of("profile 1", "profile 2") == 1);
  CHECK(line_of("device made", "gerät made") == 2);
  CHECK(line_of("pieces 5", "pieces 99999") == 4);
  CHECK(line_of("0 0 0 2 3:", "1 0 0 2 3:") == 14);
  CHECK(line_of("0 0 0 2 3:", "0 0 0 2 5:") == 14);
  CHECK(line_of("8,0 4096 1.5", "8,2 4096 1.5") == 14);
  CHECK(line_of("8,0 4096 1.5", "8,0 -4096 1.5") == 14);
  CHECK(line_of("8,0 4096 1.5", "0,0 4096 1.5") == 14);
  CHECK(line_of("8,0 4096 1.5", "8,0 4096 nan") == 14);
  CHECK(line_of("8,0 4096 1.5", "8,0 4096 1.5 3") == 14);
  CHECK(line_of("1e+03\n", "-1\n") == 15);
  CHECK(line_of("1 1:1,1  7\n", "") == 16);
  CHECK(line_of("1 1:1,1  7\n", "1 1:1,1  7\n1 1:1,1  7\n") == 16);
  CHECK(line_of("1 1:1,1  7\n", "2 0 4 1:1,1  7\n") == 16);
}

TEST_CASE("there are times of an H200, and of no other device") {
  for (const char* const name : {"", "NVIDIA", "NVIDIA H20", "NVIDIA H2000", "NVIDIA H200 NVL"})
    CHECK(FindInstalledProfile(name) == nullptr);
  const InstalledProfile* const h200 = FindInstalledProfile(DescribedDevice("h200").value().name);
  REQUIRE(h200 != nullptr);
  CHECK(h200->device().name == "NVIDIA H200");
  CHECK(h200->device().versions == kVersions);
  CHECK(h200->operations() == 13112);
  CHECK(FindInstalledProfile("NVIDIA H200") == h200);
}

// Figures of the database from which the text was written, rounded to four digits.
TEST_CASE("times of the H200 are those that were measured") {
  const InstalledProfile& h200 = *FindInstalledProfile("NVIDIA H200");
  const auto has = [&](const char* operation, size_t rows, const TimedEngine& expected) {
    const std::vector<TimedEngine> found = h200.Of(operation);
    CHECK(found.size() == rows);
    return std::any_of(found.begin(), found.end(),
                       [&](const TimedEngine& engine) { return Holds(engine, expected); });
  };
  const char* const second_of_alexnet =
      "convolution forward training out_channels=192 kernel=5x5 stride=1x1 padding=2x2 "
      "dilation=1x1 groups=1 bias=false input[0]=Nx64x27x27:fp32:nchw "
      "output[0]:=Nx192x27x27:fp32:nchw param[0]=192x64x5x5:fp32:nchw";
  const size_t rows = h200.Of(second_of_alexnet).size();
  CHECK(rows >= 5);
  CHECK(has(second_of_alexnet, rows, {"eng3_k11=2", 256, 429047808, 491.1e-6}));
  CHECK(has(second_of_alexnet, rows, {"eng70_k2=4_k18=0", 256, 0, 2707e-6}));
  CHECK(has(second_of_alexnet, rows, {"eng28_k2=4_k3=0", 256, 0, 5042e-6}));
  const char* const params =
      "convolution backward_params training out_channels=512 kernel=3x3 stride=1x1 padding=1x1 "
      "dilation=1x1 groups=1 bias=false input[0]=Nx512x7x7:fp32:nchw "
      "output_grad[0]=Nx512x7x7:fp32:nchw param_grad[0]:=512x512x3x3:fp32:nchw";
  CHECK(has(params, 18, {"eng20", 32, 0, 399.6e-6, /*deterministic=*/false}));
  CHECK(has(params, 18, {"eng18_k11=0", 64, 610402304, 642.4e-6}));
  const char* const lrn =
      "lrn forward inference size=5 alpha=5e-04 beta=0.75 k=2 input[0]=Nx256x27x27:bf16:nhwc "
      "output[0]:=Nx256x27x27:bf16:nhwc";
  CHECK(has(lrn, 2, {"neap", 128, 0, 115.6e-6}));
  CHECK(has(lrn, 2, {"neap", 512, 0, 439.8e-6}));
}

// A text that was written for signatures of an older version would have none of them.
TEST_CASE("every kernel of AlexNet's and ResNet-50's training steps has a time on the H200") {
  const InstalledProfile& h200 = *FindInstalledProfile("NVIDIA H200");
  const auto missing = [&](const char* name, const nets::NetOptions& options) {
    const Graph graph = nets::Build(name, options).value();
    const Program program = Lower(graph, {}, DescribedDevice("h200").value()).value();
    std::vector<std::string> operations;
    for (const Step& step : program.steps) {
      const StepSignature signature = program.Signature(step);
      const std::vector<TimedEngine> rows = h200.Of(SignatureText(signature));
      const bool is_known = std::any_of(rows.begin(), rows.end(), [&](const TimedEngine& row) {
        return row.batch == BatchOf(signature);
      });
      if (!is_known) operations.push_back(SignatureText(signature));
    }
    CHECK(program.steps.size() > 40);
    return operations;
  };
  CHECK(missing("alexnet", {.batch = 256}) == std::vector<std::string>{});
  CHECK(
      missing("resnet50", {.batch = 128, .dtype = DType::kBf16, .layout = Layout::kChannelsLast}) ==
      std::vector<std::string>{});
}

StepSignature SecondOfAlexNet(int64_t batch) {
  return SignatureOf(Convolution{.out_channels = 192, .kernel = 5, .padding = 2, .bias = false},
                     Phase::kForward, {{{batch, 64, 27, 27}}})
      .value();
}

std::vector<TimedEngine> AllOf(const KernelTimings& timings, const StepSignature& signature,
                               const std::string& engine) {
  std::vector<TimedEngine> rows = timings.Of(signature);
  std::erase_if(rows, [&](const TimedEngine& row) { return row.engine != engine; });
  return rows;
}

TEST_CASE("own times come first, and installed ones are added for what has none") {
  auto own = std::make_shared<MadeUpTimings>(
      std::vector<TimedEngine>{{"eng3_k11=2", 256, 8, 3e-3}, {"mine", 256, 0, 1e-3}});
  own->failed = {{"eng70_k2=4_k18=0", 256}, {"eng70_k2=2_k18=0", 128}};
  const auto timings = WithInstalledTimings(own, {.name = "NVIDIA H200", .versions = kVersions});
  const StepSignature step = SecondOfAlexNet(256);
  REQUIRE(SecondOfAlexNet(1).operands.size() == step.operands.size());
  std::vector<TimedEngine> rows = AllOf(*timings, step, "eng3_k11=2");
  std::erase_if(rows, [](const TimedEngine& row) { return row.batch != 256; });
  REQUIRE(rows.size() == 1);
  CHECK(Holds(rows.front(), {"eng3_k11=2", 256, 8, 3e-3}));
  CHECK(AllOf(*timings, step, "mine").size() == 1);
  // Failed for this batch, and for another one.
  for (const TimedEngine& row : AllOf(*timings, step, "eng70_k2=4_k18=0")) CHECK(row.batch != 256);
  const std::vector<TimedEngine> other = AllOf(*timings, step, "eng70_k2=2_k18=0");
  CHECK(std::any_of(other.begin(), other.end(),
                    [](const TimedEngine& row) { return row.batch == 256; }));
  const auto used = std::dynamic_pointer_cast<const InstalledTimings>(timings);
  REQUIRE(used != nullptr);
  CHECK(used->has_own());
  CHECK(used->has_added());
  CHECK(used->is_of_same_versions());
  CHECK(timings->FailedOn(step) == std::vector<std::string>{"eng70_k2=4_k18=0"});
  CHECK(timings->Sums(2).empty());
}

TEST_CASE("without own times the installed ones are measured, of other versions estimated") {
  const StepSignature step = SecondOfAlexNet(256);
  const auto same = WithInstalledTimings(nullptr, {.name = "NVIDIA H200", .versions = kVersions});
  const auto others =
      WithInstalledTimings(nullptr, {.name = "NVIDIA H200", .versions = "cuDNN 9.20.0"});
  REQUIRE(same->Of(step).size() >= 5);
  REQUIRE(others->Of(step).size() == same->Of(step).size());
  for (const TimedEngine& row : same->Of(step)) CHECK(row.source == TimeSource::kMeasured);
  for (const TimedEngine& row : others->Of(step)) CHECK(row.source == TimeSource::kInterpolated);
  CHECK(same->FailedOn(step).empty());
  CHECK(same->Sums(2).empty());
  // Engines of other versions are listed only where no library lists its own.
  MeasuredCatalog catalog(*others, "cuDNN 9.20.0", std::make_unique<DefaultCatalog>());
  REQUIRE(catalog.Engines(step).value().size() == 1);
  CHECK(catalog.Engines(step).value().front().id == "default");
  MeasuredCatalog alone(*others, "cuDNN 9.20.0", nullptr);
  CHECK(alone.Engines(step).value().front().id == "eng3_k11=2");
  MeasuredCatalog measured(*same, kVersions, nullptr);
  CHECK(measured.Engines(step).value().front().id == "eng3_k11=2");
}

TEST_CASE("a device that has no installed times keeps its own, or none") {
  const auto own = std::make_shared<MadeUpTimings>(std::vector<TimedEngine>{});
  CHECK(WithInstalledTimings(own, {.name = "NVIDIA H100", .versions = kVersions}) == own);
  CHECK(WithInstalledTimings(nullptr, {.name = "NVIDIA H100", .versions = kVersions}) == nullptr);
}

}  // namespace
}  // namespace neap
