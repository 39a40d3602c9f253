#include "neap/core/plan/plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/units.h"
#include "neap/core/program/passes.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/profile/profile_database.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

TEST_CASE("AlexNet under the paper's accounting has the paper's peak") {
  const Json plan = RunForJson({"plan", "alexnet", "--batch", "200", "--policy", "liveness",
                                "--accounting", "paper", "--device", "h200"})
                        .at(0);
  CHECK(plan.at("peak_activation_bytes") == 1561702400);
  CHECK(std::abs(plan.at("peak_activation_mib").get<double>() - 1489.355) <= 0.001);
  CHECK(plan.at("peak_step") == 32);
  CHECK(plan.at("peak_layer") == "pool5");
  CHECK(plan.at("live_tensors") == 17);
  CHECK(plan.at("verified") == true);
}

TEST_CASE("exact accounting is below the paper's, and the parts of the difference add up") {
  const Json plan = RunForJson({"plan", "alexnet", "--batch", "200", "--device", "h200"}).at(0);
  const Json& paper = plan.at("paper");
  CHECK(paper.at("peak_activation_bytes") == 1561702400);
  const int64_t exact = plan.at("peak_activation_bytes");
  CHECK(exact < 1561702400);
  const int64_t parts = paper.at("unread_bytes").get<int64_t>() -
                        paper.at("saved_bytes").get<int64_t>() +
                        paper.at("in_place_bytes").get<int64_t>();
  CHECK(exact + parts == 1561702400);
  CHECK(paper.at("in_place_results") > 0);
  const Json apart =
      RunForJson({"plan", "alexnet", "--batch", "200", "--device", "h200", "--no-in-place"}).at(0);
  CHECK(apart.at("in_place_results") == 0);
  CHECK(apart.at("peak_activation_bytes").get<int64_t>() ==
        exact + paper.at("in_place_bytes").get<int64_t>());
}

TEST_CASE("a program can plan for an absent GPU as the command does") {
  const Json printed =
      RunForJson({"plan", "resnet50", "--batch", "32", "--device", "h200", "--database", "none"})
          .at(0);
  const absl::StatusOr<Graph> net = nets::Build("resnet50", {.batch = 32});
  REQUIRE(net.ok());
  const absl::StatusOr<DeviceDescription> h200 = DescribedDevice("h200");
  const absl::StatusOr<Program> program = Lower(*net, {}, h200.value());
  const absl::StatusOr<std::unique_ptr<EngineCatalog>> catalog = DescribedCatalog("h200");
  REQUIRE((program.ok() && h200.ok() && catalog.ok()));
  const absl::StatusOr<PlanResult> result = MakePlan(*program, {}, *h200, **catalog);
  REQUIRE(result.ok());
  CHECK(absl::StrFormat("%016x", result->plan.Hash()) == printed.at("plan_hash"));
  CHECK(absl::IsNotFound(DescribedCatalog("abacus").status()));
}

TEST_CASE("a plan for a GPU whose engines are unknown says that they are placeholders") {
  for (const std::string device : {"h200", "cpu"}) {
    CAPTURE(device);
    const bool are_known = device == "cpu" || KnowsEnginesOfH200();
    const std::vector<std::string> plan = {"plan", "lenet",      "--device",
                                           device, "--database", "none"};
    CHECK(RunForJson(plan).at(0).at("engines_known") == are_known);
    const std::string placeholders =
        "\n  engines              placeholders, one for each step, without workspace: there is no "
        "cuDNN here to list those of NVIDIA H200 (";
    CHECK((RunNeap(plan).out.find(placeholders) == std::string::npos) == are_known);
  }
}

TEST_CASE("a plan says by which model the times that were not measured are predicted") {
  for (const std::string device : {"h200", "cpu"}) {
    CAPTURE(device);
    const std::string model = device == "cpu" ? "AMD EPYC" : "NVIDIA H200";
    const std::vector<std::string> plan = {"plan", "alexnet",    "--device",
                                           device, "--database", "none"};
    CHECK(RunForJson(plan).at(0).at("cost_model") == "fitted to " + model);
    CHECK(RunNeap(plan).out.find("\n  cost model           fitted to " + model + "\n") !=
          std::string::npos);
  }
}

TEST_CASE("the minimum budget is feasible, a block less is refused with that minimum") {
  const std::vector<std::string> plan = {"plan", "resnet-cifar", "--device",
                                         "cpu",  "--policy",     "liveness"};
  const int64_t minimum = RunForJson(plan).at(0).at("minimum_budget_bytes");
  const auto with_budget = [&](int64_t bytes) {
    std::vector<std::string> args = plan;
    args.insert(args.end(), {"--budget", std::to_string(bytes)});
    return args;
  };
  CHECK(RunForJson(with_budget(minimum)).at(0).at("peak_bytes") == minimum);
  CheckRefused(with_budget(minimum - kBlockBytes), 1,
               {std::to_string(minimum), "step", "policy auto fits"});
}

TEST_CASE("with a budget the policy is auto unless another one is named") {
  const std::vector<std::string> plan = {"plan", "resnet-cifar", "--device", "h200"};
  const Json free = RunForJson(plan).at(0);
  CHECK(free.at("policy") == "liveness");
  CHECK(free.at("host_budget_bytes") == 192 * kGiB);
  CHECK(free.at("host_pool_bytes") == 0);
  const Json half = RunForJson(Joined(plan, {"--budget", "30%"})).at(0);
  CHECK(half.at("policy") == "auto");
  const std::vector<std::string> tight =
      Joined(plan, {"--policy", "tensor-cache", "--budget", "30%"});
  const int64_t host_bytes = RunForJson(tight).at(0).at("host_pool_bytes");
  REQUIRE(host_bytes > 0);
  CheckRefused(Joined(tight, {"--host-budget", "1KiB"}), 1, {"a host budget of 1024 bytes"});
}

TEST_CASE("the demo's budget can be met only by rebuilding, and does not suffice without") {
  const std::vector<std::string> net = {"resnet-cifar", "--depth", "14",      "--image", "16",
                                        "--channels",   "1",       "--batch", "64"};
  const std::vector<std::string> budget = {"--budget", "9MiB"};
  const std::string demo = ReadText((SourceTree() / "demo.sh").string());
  for (const std::vector<std::string>& words : {net, budget})
    CHECK(demo.find(" " + absl::StrJoin(words, " ") + " ") != std::string::npos);
  const std::vector<std::string> plan =
      Joined(Joined({"plan"}, net), {"--device", "cpu", "--database", "none"});
  CHECK(RunForJson(plan).at(0).at("minimum_budget_bytes") > 2 * 9 * kMiB);
  const Json rebuilding = RunForJson(Joined(plan, budget)).at(0);
  CHECK(rebuilding.at("peak_bytes") <= 9 * kMiB);
  CHECK(rebuilding.at("extra_forwards") > 0);
  CHECK(rebuilding.at("offloaded_bytes") == 0);
  CHECK(rebuilding.at("host_budget_bytes") == 0);
}

TEST_CASE("on a CPU nothing moves unless a host budget is given, and refusals say so") {
  const std::vector<std::string> plan = {"plan", "resnet-cifar", "--device",
                                         "cpu",  "--database",   "none"};
  const std::string reason = "nothing moves to the host, because that is the same memory";
  CheckRefused(Joined(plan, {"--policy", "offload"}), 1,
               {"policy offload", reason, "--host-budget"});
  CheckRefused(Joined(plan, {"--offload-params"}), 1, {"parameters", reason, "--host-budget"});
  CHECK(RunForJson(Joined(plan, {"--policy", "offload", "--host-budget", "1GiB"}))
            .at(0)
            .at("offloaded_bytes") > 0);
  const auto at = [&](int64_t bytes) { return Joined(plan, {"--budget", std::to_string(bytes)}); };
  const int64_t least = RunForJson(at(kGiB)).at(0).at("minimum_budget_bytes");
  const Json smallest = RunForJson(at(least)).at(0);
  CHECK(smallest.at("peak_bytes") <= least);
  CHECK(smallest.at("host_pool_bytes") == 0);
  CheckRefused(at(least - 1), 1, {std::to_string(least), reason});
  // With a host budget less suffices, and nothing is said of it.
  const Outcome moving = RunNeap(Joined(at(1), {"--host-budget", "1GiB"}));
  CHECK(moving.err.find("smallest feasible budget") != std::string::npos);
  CHECK(moving.err.find("nothing moves") == std::string::npos);
  // Policies that always move are left out of a curve.
  const Json curve = RunForJson(Joined(plan, {"--batch", "8", "--depth", "8", "--curve"})).at(0);
  for (const Json& line : curve.at("policies")) {
    CAPTURE(line.at("policy"));
    CHECK(line.at("policy") != "offload");
    CHECK(line.at("policy") != "vdnn-all");
  }
  CHECK(curve.at("policies").size() == 7);
}

TEST_CASE("12GB and 12GiB are different budgets") {
  const auto budget = [](const char* text) {
    return RunForJson({"plan", "lenet", "--device", "cpu", "--budget", text})
        .at(0)
        .at("budget_bytes");
  };
  CHECK(budget("12GB") == 12'000'000'000);
  CHECK(budget("12GiB") == 12'884'901'888);
}

TEST_CASE("a budget in percent refers to the natural peak") {
  const std::vector<std::string> net = {"plan", "resnet-cifar", "--device", "cpu"};
  std::vector<std::string> keep_all = net;
  keep_all.insert(keep_all.end(), {"--policy", "keep-all", "--no-in-place"});
  const double natural = RunForJson(keep_all).at(0).at("peak_bytes");
  std::vector<std::string> limited = net;
  limited.insert(limited.end(), {"--budget=75%"});
  CHECK(RunForJson(limited).at(0).at("budget_bytes") == static_cast<int64_t>(0.75 * natural));
}

TEST_CASE("--plan-out writes a plan that the verifier accepts") {
  const ScratchDirectory directory;
  const std::string file = directory.File("plan.json");
  CHECK(RunNeap({"plan", "lenet", "--device", "cpu", "--plan-out", file}).exit_code == 0);
  const absl::StatusOr<Plan> plan = Plan::FromJson(ReadText(file));
  REQUIRE(plan.ok());
  CHECK(plan->net == "lenet");
  CHECK(Verify(*plan).ok());
}

TEST_CASE("--trace-out writes one span per step and the arena's level") {
  const ScratchDirectory directory;
  const std::string file = directory.File("trace.json");
  const Json plan = RunForJson({"plan", "lenet", "--device", "h200", "--trace-out", file}).at(0);
  const Json events = Json::parse(ReadText(file)).at("traceEvents");
  int spans = 0;
  int counters = 0;
  double end = 0;
  for (const Json& event : events) {
    spans += event.at("ph") == "X";
    counters += event.at("ph") == "C";
    if (event.at("ph") != "X") continue;
    CHECK(event.at("ts").get<double>() == doctest::Approx(end));
    end += event.at("dur").get<double>();
  }
  CHECK(spans == plan.at("steps"));
  CHECK(counters == spans);
  CHECK(end / 1000 == doctest::Approx(plan.at("predicted_ms").get<double>()));
  CHECK(plan.at("batch_copy_ms") > 0);
}

TEST_CASE("batch norms over all ranks are planned with two sums for each") {
  const Args plan = {"plan", "resnet-cifar", "--depth", "8",        "--batch",
                     "16",   "--ranks",      "4",       "--device", "h200"};
  const auto sums = [](const Args& command) {
    return RunForJson(command).at(0).at("data_parallel").at("sums").get<int64_t>();
  };
  constexpr int64_t kBatchNorms = 9;
  CHECK(sums(Joined(plan, {"--sync-batch-norm"})) == sums(plan) + 2 * kBatchNorms);
}

TEST_CASE("--shard-optimizer plans what one of several ranks keeps of the optimizer") {
  const Args plan = {"plan", "resnet-cifar", "--depth", "8", "--device", "h200", "--batch", "8"};
  const auto peak = [&](const Args& more) {
    return RunForJson(Joined(plan, more)).at(0).at("peak_bytes").get<int64_t>();
  };
  const int64_t whole = peak({"--ranks", "4"});
  CHECK(peak({"--ranks", "4", "--shard-optimizer"}) < whole);
  CHECK(peak({"--ranks", "1", "--shard-optimizer"}) == peak({}));
  const Outcome refused =
      RunNeap(Joined(plan, {"--ranks", "2", "--shard-optimizer", "--dtype", "fp16"}));
  CHECK(refused.exit_code != 0);
  CHECK(refused.err.find("cannot check the gradients of fp16") != std::string::npos);
}

TEST_CASE("--per-step has a line for every step, in text and in JSON") {
  const Outcome text = RunNeap({"plan", "lenet", "--device", "cpu", "--per-step"});
  CHECK(text.out.find("workspace  engine") != std::string::npos);
  const Json plan = RunForJson({"plan", "lenet", "--device", "cpu", "--per-step"}).at(0);
  CHECK(plan.at("per_step").size() == plan.at("steps"));
  for (const Json& step : plan.at("per_step")) {
    CHECK(step.at("live_bytes").get<int64_t>() + step.at("free_bytes").get<int64_t>() ==
          plan.at("budget_bytes"));
  }
}

TEST_CASE("without transfers the times of --per-step add up to the predicted time") {
  const std::vector<std::string> command = {"plan",       "lenet", "--device",  "cpu",
                                            "--database", "none",  "--per-step"};
  const Json plan = RunForJson(command).at(0);
  double total_ms = 0;
  for (const Json& step : plan.at("per_step")) {
    CHECK(step.at("measured") == false);
    CHECK(step.at("predicted_ms").get<double>() > 0);
    total_ms += step.at("predicted_ms").get<double>();
  }
  CHECK(total_ms == doctest::Approx(plan.at("predicted_ms").get<double>()));
  const std::string text = RunNeap(command).out;
  CHECK(text.find(" ms by ") != std::string::npos);
  CHECK(text.find(" model  ") != std::string::npos);
  CHECK(text.find(" measured  ") == std::string::npos);
}

TEST_CASE("tensors are offloaded to the peer up to its budget, which is faster than to the host") {
  const std::vector<std::string> command = {"plan", "alexnet",  "--batch", "32",        "--device",
                                            "h200", "--policy", "offload", "--per-step"};
  const auto planned = [&](const std::string& bytes) {
    return RunForJson(Joined(command, {"--peer-budget", bytes})).at(0);
  };
  const Json host = RunForJson(command).at(0);
  CHECK(host.at("peer_peak_bytes") == 0);
  CHECK(host.at("peer_pool_bytes") == 0);
  const int64_t need = host.at("host_pool_bytes");
  const Json all = planned(std::to_string(need));
  CHECK(all.at("host_pool_bytes") == 0);
  CHECK(all.at("peer_pool_bytes") == need);
  CHECK(all.at("peer_peak_bytes") == host.at("host_peak_bytes"));
  CHECK(all.at("peer_offloaded_bytes") == all.at("offloaded_bytes"));
  CHECK(all.at("peer_prefetched_bytes") == all.at("prefetched_bytes"));
  CHECK(all.at("predicted_ms") < host.at("predicted_ms"));
  const Json some = planned(std::to_string(need / 2));
  CHECK(some.at("host_pool_bytes") > 0);
  CHECK(some.at("peer_pool_bytes") > 0);
  CHECK(some.at("peer_pool_bytes") <= need / 2);
  for (size_t i = 0; i < host.at("per_step").size(); ++i) {
    CHECK(all.at("per_step").at(i).at("peer_bytes") == host.at("per_step").at(i).at("host_bytes"));
  }
  const std::string text = RunNeap(Joined(command, {"--peer-budget", std::to_string(need)})).out;
  CHECK(text.find("to the peer") != std::string::npos);
  CHECK(text.find("to the host") == std::string::npos);
}

TEST_CASE("the text has the minimum budget, the placement gap, the times and the verifier") {
  const std::string text = RunNeap({"plan", "alexnet", "--device", "h200"}).out;
  for (const char* part : {"minimum budget", "host memory", "(75% of the host's memory)",
                           "placement bound", "in-place results", "planned in", "batch's copy",
                           "verifier             accepted", "paper's accounting"}) {
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("engines that add in fp16 change plans only by their times, and no strict plan") {
  if (!KnowsEnginesOfH200()) return SkipCase("there is no cuDNN here");
  const ScratchDirectory directory;
  const std::string database = directory.File("h200.db"), file = directory.File("plan.json");
  const Args plan = {"plan", "lenet", "--dtype", "fp16", "--device", "h200", "--database"};
  const auto hash = [&](const Args& flags) {
    return RunForJson(Joined(plan, flags)).at(0).at("plan_hash");
  };
  const std::string half = "--half-accumulation";
  CHECK(hash({"none", half}) == hash({"none"}));
  const Graph graph = nets::Build("lenet", {.batch = 32, .dtype = DType::kFp16}).value();
  const DeviceDescription h200 = DescribedDevice("h200").value();
  const Program program = Lower(graph, {}, h200).value();
  const auto catalog = DescribedCatalog("h200", {}, {.half_accumulation = true}).value();
  {
    ProfileDatabase times =
        ProfileDatabase::Open(database, {.name = h200.name, .versions = catalog->Versions()})
            .value();
    for (const Step& step : program.steps) {
      const StepSignature signature = program.Signature(step);
      const std::vector<Engine> engines = catalog->Engines(signature).value();
      for (const Engine& engine : engines) {
        const Measurement time = {.batch = BatchOf(signature),
                                  .engine = engine,
                                  .median_seconds = engine.accumulates_in_half ? 1e-4 : 2e-4,
                                  .repeats = 7};
        REQUIRE(times.Record(SignatureText(signature), time).ok());
      }
    }
  }
  const Json none = hash({database}), strict = hash({database, "--strict"});
  CHECK(hash({database, half}) != none);
  CHECK(hash({database, half, "--strict"}) == strict);
  // The ids come back from a file.
  RunForJson(Joined(plan, {database, half, "--plan-out", file}));
  const Plan read = Plan::FromJson(ReadText(file)).value();
  CHECK(Verify(read).ok());
  CHECK(read.ToJson().find("\"half:") != std::string::npos);
  RunForJson(Joined(plan, {database, "--plan-out", file}));
  CHECK(ReadText(file).find("half:") == std::string::npos);
}

}  // namespace
}  // namespace neap::testing
