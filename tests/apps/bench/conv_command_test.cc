#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/bench/conv_set.h"
#include "neap/core/program/program.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Fields = std::vector<std::string>;

// bench conv of LeNet on the CPU, with a database of its own.
struct ConvRun {
  ScratchDirectory directory;

  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    return Joined(
        {"bench", "conv", "--set", "lenet", "--batch", "4", "--device", "cpu", "--samples", "1",
         "--limits", "512KiB,1,64MiB", "--database", directory.File("profile.db")},
        more);
  }
};

// One run of bench conv, which takes seconds: its database, what it printed, and its files.
struct Measured {
  ConvRun bench;
  std::string csv = bench.directory.File("conv.csv");
  std::string chart = bench.directory.File("conv.svg");
  Json report = RunForJson(bench.Command({"--csv", csv, "--chart", chart})).at(0);
};

// The run that all tests share; none changes it.
const Measured& MeasuredOnce() {
  static const Measured measured;
  return measured;
}

void CheckSide(const Json& side, const Fields& fields, size_t at) {
  CHECK(std::stod(fields[at]) == doctest::Approx(side.at("ms").get<double>()).epsilon(1e-3));
  CHECK(std::stod(fields[at + 1]) ==
        doctest::Approx(side.at("predicted_ms").get<double>()).epsilon(1e-3));
  CHECK(std::stoll(fields[at + 2]) == side.at("workspace_bytes").get<int64_t>());
  CHECK(fields[at + 3] == side.at("configuration").get<std::string>());
}

double Ms(const Json& times) { return times.at("ms").get<double>(); }

TEST_CASE("bench conv writes the same values as JSON and as CSV") {
  const Json& report = MeasuredOnce().report;
  const std::vector<Fields> lines = ReadCsv(MeasuredOnce().csv);
  CHECK(report.at("kernels").size() == 5);
  REQUIRE(lines.size() == 1 + 5 * 3);
  size_t row = 1;
  for (const Json& kernel : report.at("kernels")) {
    for (const Json& limit : kernel.at("limits")) {
      const Fields& fields = lines[row++];
      REQUIRE(fields.size() == lines[0].size());
      CHECK(fields[0] == kernel.at("name").get<std::string>());
      CHECK(fields[1] == kernel.at("phase").get<std::string>());
      CHECK(std::stoll(fields[4]) == limit.at("limit_bytes").get<int64_t>());
      CheckSide(limit.at("undivided"), fields, 5);
      CheckSide(limit.at("divided"), fields, 9);
      CHECK(std::stod(fields[13]) ==
            doctest::Approx(limit.at("speedup").get<double>()).epsilon(1e-3));
    }
  }
}

TEST_CASE("bench conv keeps the limits, and a larger limit is never predicted to be slower") {
  const Json& report = MeasuredOnce().report;
  for (const Json& kernel : report.at("kernels")) {
    double before = 1e9;
    int64_t limit_before = 0;
    for (const Json& limit : kernel.at("limits")) {
      const int64_t limit_bytes = limit.at("limit_bytes");
      CHECK(limit_bytes > limit_before);
      for (const char* side : {"undivided", "divided"})
        CHECK(limit.at(side).at("workspace_bytes").get<int64_t>() <= limit_bytes);
      const double predicted = limit.at("divided").at("predicted_ms");
      CHECK(predicted <= limit.at("undivided").at("predicted_ms").get<double>() * (1 + 1e-9));
      CHECK(predicted <= before * (1 + 1e-9));
      before = predicted;
      limit_before = limit_bytes;
    }
  }
}

TEST_CASE("bench conv's totals are the sums of its rows") {
  const Json& report = MeasuredOnce().report;
  for (size_t i = 0; i < 3; ++i) {
    double undivided = 0, divided = 0;
    for (const Json& kernel : report.at("kernels")) {
      const double count = kernel.at("count");
      undivided += count * Ms(kernel.at("limits").at(i).at("undivided"));
      divided += count * Ms(kernel.at("limits").at(i).at("divided"));
    }
    const Json& total = report.at("totals").at(i);
    CHECK(Ms(total.at("undivided")) == doctest::Approx(undivided));
    CHECK(Ms(total.at("divided")) == doctest::Approx(divided));
    CHECK(total.at("speedup").get<double>() == doctest::Approx(undivided / divided));
    CHECK(total.at("left_out") == 0);
  }
}

TEST_CASE("bench conv's division of one workspace is predicted to be as fast as equal parts") {
  const Json division =
      RunForJson(MeasuredOnce().bench.Command({"--total", "1MiB"})).at(0).at("workspace_division");
  CHECK(division.at("total_bytes") == 1 << 20);
  CHECK(division.at("kernels") == 5);
  CHECK(division.at("limit_bytes") == (1 << 20) / 5);
  CHECK(division.at("used_bytes").get<int64_t>() <= 1 << 20);
  CHECK(division.at("divided").at("predicted_ms").get<double>() <=
        division.at("separate").at("predicted_ms").get<double>() * (1 + 1e-9));
  CHECK(division.at("speedup").get<double>() ==
        doctest::Approx(Ms(division.at("separate")) / Ms(division.at("divided"))));
  const Json& one_each = MeasuredOnce().report.at("workspace_division");
  CHECK(one_each.at("total_bytes") == int64_t{5} * (8 << 20));
}

TEST_CASE("bench conv --plan-only predicts the same as bench conv with the device") {
  const ScratchDirectory directory;
  const ConvRun& bench = MeasuredOnce().bench;
  const Json& measured = MeasuredOnce().report;
  const std::string device = measured.at("device");
  const std::string csv = directory.File("predicted.csv");
  for (const std::string& name : {std::string("cpu"), device}) {
    const Json predicted =
        RunForJson(bench.Command({"--plan-only", "--device", name, "--csv", csv})).at(0);
    CHECK(predicted.at("executed") == false);
    CHECK(predicted.at("device") == device);
    CHECK(predicted.at("versions") == measured.at("versions"));
    for (size_t k = 0; k < 5; ++k) {
      for (size_t i = 0; i < 3; ++i) {
        const Json& here = predicted.at("kernels").at(k).at("limits").at(i);
        const Json& there = measured.at("kernels").at(k).at("limits").at(i);
        for (const char* side : {"undivided", "divided"}) {
          CHECK(here.at(side).at("ms").is_null());
          for (const char* same : {"predicted_ms", "configuration", "workspace_bytes"})
            CHECK(here.at(side).at(same) == there.at(side).at(same));
        }
        CHECK(here.at("speedup").get<double>() >= 1 - 1e-9);
      }
    }
    const Json& division = predicted.at("workspace_division");
    for (const char* same : {"kernels", "variables", "used_bytes", "gap"})
      CHECK(division.at(same) == measured.at("workspace_division").at(same));
  }
  CHECK(ReadCsv(csv)[1][5].empty());
  CHECK(!ReadCsv(csv)[1][6].empty());
  const std::string chart = directory.File("predicted.svg");
  const std::string text = RunNeap(bench.Command({"--plan-only", "--chart", chart})).out;
  CHECK(text.find("nothing was executed") != std::string::npos);
  CHECK(ReadText(chart).find(", predicted</text>") != std::string::npos);
}

// Times of six engines for every kernel and part of a network's convolutions, on a device that is
// not here: more workspace is faster, and larger parts are.
int64_t WriteTimesOf(const std::string& path, const std::string& net, int64_t batch) {
  const Graph graph = nets::Build(net, {.batch = batch}).value();
  const std::vector<apps::ConvKernel> kernels =
      apps::ConvolutionsOf(BuildProgram(graph, {}).value());
  ProfileDatabase database =
      ProfileDatabase::Open(path, {.name = "NVIDIA H200", .versions = "cuDNN 9"}).value();
  int64_t count = 0;
  for (const apps::ConvKernel& kernel : kernels) {
    count += kernel.count;
    const StepSignature& step = kernel.signature;
    const auto elements = static_cast<double>(step.operands[0].tensor.elements());
    const double image_seconds = 1e-12 * elements * static_cast<double>(kernel.name.size());
    for (int64_t part = 1; part <= batch; part *= 2) {
      for (int e = 0; e < 6; ++e) {
        const double seconds = image_seconds * (static_cast<double>(part) + 2) / (1.5 + e);
        CHECK(
            database
                .Record(SignatureText(step), {.batch = part,
                                              .engine = {.id = absl::StrCat("eng", e),
                                                         .workspace_bytes = e * e * part * 100'000},
                                              .median_seconds = seconds,
                                              .repeats = 7})
                .ok());
      }
    }
  }
  return count;
}

TEST_CASE("one workspace is divided among the kernels of real networks, from a database alone") {
  for (const std::string net : {"resnet152", "densenet201"}) {
    CAPTURE(net);
    const ScratchDirectory directory;
    const std::string database = directory.File("h200.db");
    const int64_t kernels = WriteTimesOf(database, net, 32);
    const Json report = RunForJson({"bench", "conv", "--plan-only", "--set", net, "--batch", "32",
                                    "--database", database, "--device", "h200"})
                            .at(0);
    const Json& division = report.at("workspace_division");
    CHECK(division.at("kernels") == kernels);
    CHECK(kernels >= 450);
    CHECK(division.at("variables").get<int64_t>() > 3 * kernels);
    CHECK(division.at("gap").get<double>() < 1e-3);
    CHECK(division.at("used_bytes") <= division.at("total_bytes"));
    CHECK(division.at("speedup").get<double>() >= 1 - 1e-9);
  }
}

TEST_CASE("bench conv names the kernels that the database lacks") {
  const ScratchDirectory directory;
  const std::string database = directory.File("h200.db");
  const std::vector<std::string> command = {"bench",   "conv", "--plan-only", "--set", "lenet",
                                            "--batch", "8",    "--database",  database};
  CheckRefused(command, 1, {"h200.db"});
  WriteTimesOf(database, "lenet", 4);
  CheckRefused(command, 1, {"5 of 5", "at their batch", "conv1 forward", "8x1x28x28"});
  WriteTimesOf(database, "lenet", 8);
  CHECK(RunForJson(command).at(0).at("device") == "NVIDIA H200");
  CheckRefused(Joined(command, {"--device", "cpu"}), 1, {"nothing was measured on", "NVIDIA H200"});
  CheckRefused(Joined(command, {"--device", "h3000"}), 2, {"'h3000'"});
  CheckRefused(Joined(command, {"--set", "alexnet"}), 1, {"14 of 14", "NVIDIA H200", "conv1"});
}

TEST_CASE("bench conv's table has the numbers of its CSV file") {
  const ConvRun bench;
  const std::string csv = bench.directory.File("table.csv");
  const Outcome outcome = RunNeap(bench.Command({"--csv", csv}));
  REQUIRE(outcome.exit_code == 0);
  std::vector<Fields> lines = ReadCsv(csv);
  lines.erase(lines.begin());
  CHECK(lines.size() == 15);
  for (const Fields& fields : lines) {
    CHECK(outcome.out.find(fields[0] + " " + fields[1] + ", " + fields[2] + "\n") !=
          std::string::npos);
    // The CSV's number is itself rounded, so that rounding it again may give a neighbour.
    const double speedup = std::stod(fields[13]);
    CHECK((outcome.out.find(absl::StrFormat("%.2fx", speedup - 1e-4)) != std::string::npos ||
           outcome.out.find(absl::StrFormat("%.2fx", speedup + 1e-4)) != std::string::npos));
    CHECK(outcome.out.find(fields[12] + "\n") != std::string::npos);
  }
  CHECK(outcome.err.find("profile lenet: ") != std::string::npos);
  CHECK(outcome.err.find("execute: 5/5 kernels\n") != std::string::npos);
}

// Tags that open and close in order, attributes in quotes, nothing loose.
bool IsWellFormed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; (at = xml.find('<', at)) != std::string::npos; ++at) {
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != tag) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  for (size_t at = 0; (at = xml.find('&', at)) != std::string::npos; ++at) {
    const std::string entity = xml.substr(at, xml.find(';', at) - at);
    if (entity != "&amp" && entity != "&lt" && entity != "&gt" && entity != "&quot") return false;
  }
  return open.empty();
}

TEST_CASE("bench conv's chart is a picture with a group for every kernel") {
  const Json& report = MeasuredOnce().report;
  const std::string svg = ReadText(MeasuredOnce().chart);
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(IsWellFormed(svg));
  CHECK(svg.find(">all kernels</text>") != std::string::npos);
  for (const Json& kernel : report.at("kernels")) {
    const std::string label =
        kernel.at("name").get<std::string>() + " " + kernel.at("phase").get<std::string>();
    CHECK(svg.find(">" + label + "</text>") != std::string::npos);
  }
  for (const char* limit : {"1 B<", "512.000 KiB<", "64.000 MiB<"})
    CHECK(svg.find(limit) != std::string::npos);
}

TEST_CASE("a wrong command line of bench ends with 2") {
  CheckRefused({"bench"}, 2, {"bench --help"});
  CheckRefused({"bench", "cnov"}, 2, {"'cnov'", "conv"});
  CheckRefused({"bench", "conv", "alexnet"}, 2, {"'alexnet'"});
  CheckRefused({"bench", "conv", "--set", "alexnt"}, 2, {"'alexnt'", "alexnet"});
  CheckRefused({"bench", "conv", "--limits", "8MiB,"}, 2, {"--limits"});
  CheckRefused({"bench", "conv", "--limits", "1,2,3,4,5,6"}, 2, {"--limits", "at most 5"});
  CheckRefused({"bench", "conv", "--divisions", "some"}, 2, {"--divisions", "power-of-two"});
  CheckRefused({"bench", "conv", "--total", "0"}, 2, {"--total"});
  CheckRefused({"bench", "conv", "--dtype", "fp8"}, 2, {"--dtype", "fp32"});
  CheckRefused({"bench", "conv", "--device", "h200"}, 2, {"h200"});
}

TEST_CASE("bench --help lists what can be compared") {
  CHECK(RunNeap({"bench", "--help"}).out.find("  conv  ") != std::string::npos);
  const std::string help = RunNeap({"bench", "conv", "--help"}).out;
  CHECK(help.find("(8MiB,64MiB,512MiB)\n") != std::string::npos);
  CHECK(help.find("(alexnet)\n") != std::string::npos);
  CHECK(help.find("(8MiB times their number)\n") != std::string::npos);
  CHECK(help.find("; with --plan-only any device in the database") != std::string::npos);
  CHECK(RunNeap({"profile", "--help"})
            .out.find("; with --list also a card that neap devices lists") != std::string::npos);
}

TEST_CASE("bench conv --set takes a file of shapes, and prints fronts and segments") {
  const ConvRun& bench = MeasuredOnce().bench;
  const std::string shapes = bench.directory.File("shapes.csv");
  std::ofstream(shapes)
      << "source,W,H,C_in,N,C_out,kernel_w,kernel_h,pad_w,pad_h,stride_w,stride_h\n"
         "mine,8,8,4,2,4,3,3,1,1,1,1\n";
  const std::vector<std::string> command = {
      "bench",     "conv", "--set",    shapes,  "--device",   "cpu",
      "--samples", "1",    "--limits", "64MiB", "--database", bench.directory.File("shapes.db")};
  const std::string text = RunNeap(Joined(command, {"--fronts", "--segments"})).out;
  CHECK(text.find("mine 1 forward, 2x4x8x8 * 4x4x3x3 -> 2x4x8x8\n") != std::string::npos);
  CHECK(text.find("desirable configurations: workspace, ms as predicted\nmine 1 forward, ") !=
        std::string::npos);
  CHECK(text.find("segments of the divided workspace: bytes, ms as executed (as predicted)\n") !=
        std::string::npos);
  const Json report = RunForJson(Joined(command, {"--plan-only"})).at(0);
  CHECK(report.at("kernels").size() == 3);
  CHECK(report.at("workspace_division").at("segments").size() == 3);
  CheckRefused({"bench", "conv", "--set", bench.directory.File("no.csv"), "--device", "cpu"}, 1,
               {"no.csv", "No such file"});
}

}  // namespace
}  // namespace neap::testing
