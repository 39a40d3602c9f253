#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/cli/device_flag.h"
#include "neap/core/base/units.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"
#include "neap/nets/registry.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

// Whether a plan is made for a device, by the planner alone.
absl::Status Planned(const apps::PlanTarget& target, const std::string& net,
                     const nets::NetOptions& size, const PlannerOptions& options) {
  const absl::StatusOr<Graph> graph = nets::Build(net, size);
  REQUIRE(graph.ok());
  const absl::StatusOr<Program> program = Lower(*graph, {}, target.description);
  REQUIRE(program.ok());
  const absl::StatusOr<PlanResult> result =
      MakePlan(*program, options, target.description, target.engines());
  if (result.ok()) {
    CHECK(MinimumBudget(*program, options, target.description, target.engines()).value() ==
          result->stats.minimum_budget_bytes);
    CHECK(result->plan.peak_bytes <= options.budget_bytes);
  }
  return result.status();
}

TEST_CASE("the peak batch fits and one image more does not, under every kind of policy") {
  // Listing the engines of a GPU takes most of the time of a search, so only one policy does it.
  struct Search {
    const char* device;
    const char* policy;
    int64_t host_budget = kGiB;
  };
  for (const Search& search :
       {Search{"h200", "superneurons"}, Search{"cpu", "keep-all"}, Search{"cpu", "liveness"},
        Search{"cpu", "offload"}, Search{"cpu", "superneurons"}, Search{"cpu", "cost-aware"},
        Search{"cpu", "superneurons", 0}, Search{"cpu", "auto", 0}}) {
    const char* const device = search.device;
    const char* const policy = search.policy;
    const int64_t host_budget = search.host_budget;
    CAPTURE(device);
    CAPTURE(policy);
    CAPTURE(host_budget);
    const apps::PlanTarget target = apps::OpenPlanTarget(device).value();
    const Json row =
        RunForJson({"peak-batch", "resnet-cifar", "--depth", "8", "--device", device, "--policy",
                    policy, "--budget", "16MiB", "--host-budget", std::to_string(host_budget)})
            .at(0)
            .at("results")
            .at(0);
    const int64_t batch = row.at("batch");
    const PlannerOptions options = {.budget_bytes = 16 * kMiB,
                                    .host_budget_bytes = host_budget,
                                    .policy = policy,
                                    .strict = target.description.kind == "cpu"};
    CHECK(batch > 1);
    const auto planned = [&](int64_t n) {
      return Planned(target, "resnet-cifar", {.batch = n, .depth = 8}, options);
    };
    CHECK(planned(batch).ok());
    CHECK(absl::IsResourceExhausted(planned(batch + 1)));
  }
}

TEST_CASE("the peak depth fits and the next does not") {
  const apps::PlanTarget cpu = apps::OpenPlanTarget("cpu").value();
  for (const char* policy : {"liveness", "superneurons"}) {
    CAPTURE(policy);
    const Json row = RunForJson({"peak-depth", "resnet", "--batch", "2", "--image", "32",
                                 "--device", "cpu", "--policy", policy, "--budget", "640MiB"})
                         .at(0)
                         .at("results")
                         .at(0);
    const int64_t depth = row.at("depth");
    const PlannerOptions options = {
        .budget_bytes = 640 * kMiB, .host_budget_bytes = 0, .policy = policy, .strict = true};
    CHECK((depth - 134) % 3 == 0);
    const auto planned = [&](int64_t d) {
      return Planned(cpu, "resnet", {.batch = 2, .image = 32, .depth = d}, options);
    };
    CHECK(planned(depth).ok());
    CHECK(absl::IsResourceExhausted(planned(depth + 3)));
  }
}

TEST_CASE("a host budget limits the batch as well") {
  const std::vector<std::string> search = {"peak-batch", "resnet-cifar", "--depth",  "8",
                                           "--device",   "cpu",          "--budget", "16MiB",
                                           "--policy",   "superneurons"};
  const Json free = RunForJson(Joined(search, {"--host-budget", "1GiB"})).at(0).at("results").at(0);
  const Json bound =
      RunForJson(Joined(search, {"--host-budget", "1MiB"})).at(0).at("results").at(0);
  CHECK(free.at("host_pool_bytes") > kMiB);
  CHECK(bound.at("host_pool_bytes") <= kMiB);
  CHECK(bound.at("batch") < free.at("batch"));
  CHECK(free.at("limited_by") == "budget");
  CHECK(bound.at("limited_by") == "host budget");
  // On a CPU nothing moves unless a host budget is given.
  const Json unmoved = RunForJson(search).at(0);
  CHECK(unmoved.at("host_budget_bytes") == 0);
  CHECK(unmoved.at("results").at(0).at("host_pool_bytes") == 0);
  CHECK(unmoved.at("results").at(0).at("batch") < free.at("batch"));
  CHECK(unmoved.at("results").at(0).at("limited_by") == "budget");
}

TEST_CASE("peak-batch begins at 2 where batch norms of one image have one value per channel") {
  const Json row = RunForJson({"peak-batch", "resnet18", "--image", "32", "--device", "h200",
                               "--database", "none", "--policy", "liveness", "--budget", "190MiB"})
                       .at(0);
  CHECK(row.at("results").at(0).at("batch").get<int64_t>() >= 2);
}

TEST_CASE("peak-batch prints the host budget and how much of it the plan takes") {
  const std::vector<std::string> search = {"peak-batch", "lenet", "--device", "h200",
                                           "--budget",   "6MiB",  "--policy", "superneurons"};
  const Json found = RunForJson(search).at(0);
  CHECK(found.at("host_budget_bytes") == 192 * kGiB);
  CHECK(found.at("results").at(0).contains("host_pool_bytes"));
  CHECK(found.at("results").at(0).at("engines_known") == KnowsEnginesOfH200());
  const std::string text = RunNeap(search).out;
  CHECK((text.find("\n  engines are placeholders, one for each step") == std::string::npos) ==
        KnowsEnginesOfH200());
  CHECK(text.find("host budget 192.000 GiB (75% of the host's memory)\n") != std::string::npos);
  CHECK(RunForJson(Joined(search, {"--host-budget", "1GiB"})).at(0).at("host_budget_bytes") ==
        kGiB);
}

TEST_CASE("train and plan can use the batch that peak-batch finds in the same budget") {
  for (const bool moves : {false, true}) {
    CAPTURE(moves);
    std::vector<std::string> given = {"resnet-cifar", "--device", "cpu", "--budget", "8MiB"};
    if (moves) given = Joined(given, {"--host-budget", "1GiB"});
    const Json row = RunForJson(Joined({"peak-batch"}, given)).at(0).at("results").at(0);
    const std::string batch = std::to_string(row.at("batch").get<int64_t>());
    CHECK((row.at("host_pool_bytes") > 0) == moves);
    const Json planned = RunForJson(Joined(Joined({"plan"}, given), {"--batch", batch})).at(0);
    CHECK(planned.at("peak_bytes") == row.at("peak_bytes"));
    const std::vector<Json> trained =
        RunForJson(Joined(Joined({"train"}, given), {"--batch", batch, "--steps", "1"}));
    CHECK(trained.front().at("host_pool_bytes") == row.at("host_pool_bytes"));
    CHECK(trained.back().at("measured_peak_bytes") == row.at("peak_bytes"));
    CheckRefused(Joined(Joined({"train"}, given), {"--batch", batch, "--policy", "liveness"}), 1,
                 {"policy auto fits"});
  }
}

TEST_CASE("peak-batch plans with both rules of eviction") {
  for (const char* rule : {"lru", "belady"}) {
    const Json found =
        RunForJson({"peak-batch", "lenet", "--device", "cpu", "--budget", "32MiB", "--evict", rule})
            .at(0);
    CHECK(found.at("results").at(0).at("batch") > 1);
  }
}

TEST_CASE("--run trains at the batch that was found with the predicted peak") {
  const Json found = RunForJson({"peak-batch", "lenet", "--device", "cpu", "--budget", "8MiB",
                                 "--run", "--steps", "2", "--compare-batch", "1"})
                         .at(0);
  CHECK(found.at("search") == "batch");
  CHECK(found.at("budget_bytes") == 8 * kMiB);
  const Json& row = found.at("results").at(0);
  CHECK(row.at("limited_by") == "budget");
  CHECK(row.at("verified") == true);
  CHECK(row.at("run").at("batch") == row.at("batch"));
  CHECK(row.at("run").at("steps") == 2);
  CHECK(row.at("run").at("steps_down") == 0);
  CHECK(row.at("run").at("images_per_second") > 0);
  CHECK(row.at("run").at("measured_peak_bytes") == row.at("run").at("predicted_peak_bytes"));
  CHECK(row.at("run").at("peaks_equal") == true);
  CHECK(row.at("compared").at("batch") == 1);
  CHECK(row.at("compared").at("peaks_equal") == true);
}

TEST_CASE("--run trains the deepest network") {
  const Json row = RunForJson({"peak-depth", "resnet-cifar", "--device", "cpu", "--batch", "2",
                               "--budget", "4MiB", "--run"})
                       .at(0)
                       .at("results")
                       .at(0);
  CHECK((row.at("depth").get<int64_t>() - 2) % 6 == 0);
  CHECK(row.at("run").at("depth") == row.at("depth"));
  CHECK(row.at("run").at("peaks_equal") == true);
}

TEST_CASE("several networks give one row each") {
  const std::vector<std::string> search = {"peak-batch", "lenet", "resnet20",
                                           "--device",   "cpu",   "--budget=16MiB"};
  const Json rows = RunForJson(search).at(0).at("results");
  CHECK(rows.size() == 2);
  for (const Json& row : rows) CHECK(row.at("engines_known") == true);
  const std::string table = RunNeap(search).out;
  CHECK(table.find("\n  lenet ") != std::string::npos);
  CHECK(table.find("\n  resnet20 ") != std::string::npos);
}

TEST_CASE("several policies give one row each, the same as each alone") {
  const std::vector<std::string> search = {"peak-batch", "lenet",      "resnet20", "--device",
                                           "h200",       "--database", "none",     "--budget=8MiB"};
  const std::vector<std::string> policies = {"keep-all", "chen", "superneurons"};
  const Json all = RunForJson(Joined(search, {"--policy", "keep-all,chen,superneurons"})).at(0);
  CHECK(all.at("policies") == policies);
  CHECK(!all.contains("policy"));
  REQUIRE(all.at("results").size() == 6);
  for (size_t i = 0; i < policies.size(); ++i) {
    const Json alone = RunForJson(Joined(search, {"--policy", policies[i]})).at(0);
    CHECK(alone.at("policy") == policies[i]);
    for (const size_t net : {size_t{0}, size_t{1}}) {
      const Json& row = all.at("results").at(3 * net + i);
      CHECK(row.at("policy") == policies[i]);
      for (const char* key : {"net", "batch", "peak_bytes", "predicted_images_per_second",
                              "natural_bytes", "natural_liveness_bytes", "host_pool_bytes"})
        CHECK(row.at(key) == alone.at("results").at(net).at(key));
    }
  }
  const Json& keep_all = all.at("results").at(0);
  CHECK(keep_all.at("predicted_images_per_second").get<double>() > 0);
  CHECK(keep_all.at("natural_bytes") > keep_all.at("natural_liveness_bytes"));
  const std::string table = RunNeap(Joined(search, {"--policy", "keep-all,superneurons"})).out;
  CHECK(table.find("\n  lenet                keep-all ") != std::string::npos);
  CHECK(table.find("\n  resnet20             superneurons ") != std::string::npos);
  CHECK(table.find(" natural peak ") != std::string::npos);
}

TEST_CASE("of several policies, one that fits no size has a row without") {
  const std::vector<std::string> search = {
      "peak-batch", "lenet", "--device", "cpu", "--policy", "offload,liveness", "--budget", "8MiB"};
  const Json rows = RunForJson(search).at(0).at("results");
  CHECK(rows.at(0).at("refused").get<std::string>().find("offload moves tensors") !=
        std::string::npos);
  CHECK(rows.at(1).at("batch").get<int64_t>() > 1);
  CHECK(RunNeap(search).out.find("\n  lenet                offload                 -\n") !=
        std::string::npos);
}

TEST_CASE("peak-depth takes several networks, and densenet at any depth") {
  const Json rows =
      RunForJson({"peak-depth", "densenet", "resnet-cifar", "--device", "cpu", "--batch", "2",
                  "--image", "32", "--policy", "liveness", "--budget", "40MiB"})
          .at(0)
          .at("results");
  REQUIRE(rows.size() == 2);
  const int64_t depth = rows.at(0).at("depth");
  CHECK(depth % 2 == 1);
  CHECK((rows.at(1).at("depth").get<int64_t>() - 2) % 6 == 0);
  const apps::PlanTarget cpu = apps::OpenPlanTarget("cpu").value();
  const PlannerOptions options = {
      .budget_bytes = 40 * kMiB, .host_budget_bytes = 0, .policy = "liveness", .strict = true};
  const auto planned = [&](int64_t d) {
    return Planned(cpu, "densenet", {.batch = 2, .image = 32, .depth = d}, options);
  };
  CHECK(planned(depth).ok());
  CHECK(absl::IsResourceExhausted(planned(depth + 2)));
}

TEST_CASE("peak-batch and peak-depth refuse wrong command lines in one line") {
  CheckRefused({"peak-batch"}, 2, {"NET is missing"});
  CheckRefused({"peak-batch", "lenet", "vgg61", "--device", "cpu", "--budget", "8MiB"}, 2,
               {"vgg61", "vgg16"});
  CheckRefused({"peak-batch", "lenet", "--batch", "3"}, 2, {"--batch"});
  CheckRefused({"peak-batch", "lenet", "--policy", "auto,fast"}, 2, {"'fast'", "chen"});
  CheckRefused({"peak-depth", "resnet", "vgg16", "--device", "h200"}, 2, {"'vgg16'", "depth"});
  CheckRefused({"peak-batch", "lenet", "--budget", "60%"}, 2, {"--budget", "bytes"});
  CheckRefused({"peak-batch", "lenet", "--host-budget", "60%"}, 2, {"--host-budget", "60%"});
  CheckRefused({"peak-batch", "lenet", "--evict", "fifo"}, 2, {"'fifo'", "belady"});
  CheckRefused({"peak-batch", "lenet", "--compare-batch", "3"}, 2, {"--compare-batch", "--run"});
  CheckRefused({"peak-batch", "lenet", "--device", "h200", "--run"}, 2, {"--run", "cpu"});
  for (const char* keep : {"0%", "101%", "-5%", "0.8", "80", "most", ""})
    CheckRefused({"peak-batch", "lenet", "--keep", keep}, 2, {"--keep", "80%"});
  CheckRefused({"peak-batch", "lenet", "--device", "h200", "--database", "none", "--policy",
                "vdnn-all", "--budget", "12MiB", "--keep", "100%"},
               1, {"found no batch of lenet that keeps 100%", "batch 1 keeps"});
  CheckRefused({"peak-depth", "resnet", "--keep", "80%"}, 2, {"--keep"});
  CheckRefused({"peak-depth", "vgg16", "--device", "h200"}, 2, {"'vgg16'", "depth"});
  CheckRefused({"peak-depth", "resnet", "--depth", "137"}, 2, {"--depth"});
  CheckRefused({"peak-batch", "lenet", "--device", "cpu", "--budget", "1"}, 1,
               {"1 bytes", "smallest feasible budget"});
}

}  // namespace
}  // namespace neap::testing
