// neap train --plan: a plan that neap plan wrote, or another program, is run as it is.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"

namespace neap::testing {
namespace {

using OrderedJson = nlohmann::ordered_json;

const Args kNet = {"resnet-cifar", "--depth", "8",        "--image", "8",
                   "--batch",      "16",      "--device", "cpu"};

const Args kSteps = {"--steps", "4", "--log-every", "1"};

// A plan of kNet as a file.
class PlanFile {
 public:
  explicit PlanFile(const Args& more = kMoving) {
    const Outcome planned =
        RunNeap(Joined(Joined({"plan"}, Joined(kNet, more)), {"--plan-out", path_}));
    INFO(planned.err);
    REQUIRE(planned.exit_code == 0);
  }
  const std::string& path() const { return path_; }
  void Edit(const std::function<void(OrderedJson&)>& edit) const {
    OrderedJson plan = OrderedJson::parse(ReadText(path_));
    edit(plan);
    WriteText(path_, plan.dump());
  }
  Args Training(const Args& more = {}) const {
    return Joined(Joined({"train"}, kNet), Joined({"--plan", path_}, more));
  }

 private:
  ScratchDirectory directory_;
  std::string path_ = directory_.File("plan.json");
};

TEST_CASE("training by a plan file gives the bits of training with the flags that planned it") {
  const ScratchDirectory directory;
  const std::string by_flags = directory.File("flags.safetensors");
  const std::string by_file = directory.File("file.safetensors");
  const Args data = {"--data", "idx:" + Digits(), "--channels", "1", "--eval"};
  const PlanFile plan(Joined({"--channels", "1"}, kMoving));
  const auto flags = RunForJson(Joined(Joined(Joined({"train"}, kNet), kMoving),
                                       Joined(Joined(kSteps, data), {"--save", by_flags})));
  const auto file = RunForJson(plan.Training(Joined(Joined(kSteps, data), {"--save", by_file})));
  CHECK(LossesOf(flags).size() == 4);
  CHECK(LossesOf(file) == LossesOf(flags));
  CHECK(ReadText(by_file) == ReadText(by_flags));
  for (const char* field : {"evaluation", "predicted_peak_bytes"}) {
    CHECK(file.back().at(field) == flags.back().at(field));
  }
  CHECK(file.back().at("peaks_equal") == true);
  CHECK(file.back().at("measured_runs").is_null());
  CHECK(file.front().at("plan_file") == plan.path());
  CHECK(file.front().at("host_budget_bytes").is_null());
  CHECK(flags.front().at("plan_file").is_null());
  for (const char* field : {"policy", "budget_bytes", "predicted_peak_bytes"}) {
    CHECK(file.front().at(field) == flags.front().at(field));
  }
}

TEST_CASE("the text names the plan's file and says that the prediction is from there") {
  const PlanFile plan;
  const Outcome outcome = RunNeap(plan.Training({"--steps", "13"}));
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("from the plan in " + plan.path()) != std::string::npos);
  CHECK(outcome.out.find("(equal)") != std::string::npos);
  CHECK(outcome.out.find("as stored in the plan's file") != std::string::npos);
}

TEST_CASE("a plan from a file is compared with no other plan, and a time of 0 is unknown") {
  const Args steps = {"--steps", "12"};
  const Args no_database = {"--database", "none"};
  const PlanFile plan(Joined(kMoving, no_database));
  const Args training = plan.Training(Joined(steps, no_database));
  const nlohmann::json fit = RunForJson(training).front().at("fit");
  CHECK(fit.at("offloaded_bytes") > 0);
  CHECK(fit.at("predicted_ms") > 0);
  CHECK(fit.at("predicted_ms_unlimited").is_null());
  CHECK(fit.at("slowdown").is_null());
  const std::string text = RunNeap(training).out;
  CHECK(text.find(" ms a step\n") != std::string::npos);
  CHECK(text.find("against no budget") == std::string::npos);

  plan.Edit([](OrderedJson& json) { json["predicted_ms"] = 0; });
  const std::vector<nlohmann::json> unknown = RunForJson(training);
  CHECK(unknown.front().at("fit").at("offloaded_bytes") == fit.at("offloaded_bytes"));
  CHECK(unknown.front().at("fit").at("predicted_ms").is_null());
  CHECK(unknown.back().at("predicted_images_per_second").is_null());
  const std::string without = RunNeap(training).out;
  CHECK(without.find("  to fit           ") != std::string::npos);
  for (const char* part : {"ms a step", "  predicted        ", "%)\n"}) {
    CAPTURE(part);
    CHECK(without.find(part) == std::string::npos);
  }
}

TEST_CASE("a plan that was edited is refused with the verifier's line") {
  const PlanFile plan;
  plan.Edit([](OrderedJson& json) {
    for (OrderedJson& action : json["actions"]) {
      if (action["op"] == "free") {
        action = json["actions"].back();  // one tensor is never freed, another one twice
        return;
      }
    }
  });
  CheckRefused(plan.Training(), 1, {plan.path() + ": plan fault [", "action "});
}

TEST_CASE("a plan for another program or device is refused with the first difference") {
  const PlanFile plan;
  const auto refused = [&](Args net, const Args& words) {
    CheckRefused(Joined(Joined({"train"}, net), {"--plan", plan.path(), "--device", "cpu"}), 1,
                 Joined({plan.path()}, words));
  };
  refused({"lenet"}, {"for network resnet8, not for lenet"});
  refused({"resnet-cifar", "--depth", "8", "--image", "8", "--batch", "8"},
          {"for batch 16, not for 8"});
  refused({"resnet-cifar", "--depth", "8", "--image", "8", "--batch", "16", "--dtype", "tf32"},
          {"for dtype fp32, not for tf32"});
  refused({"resnet-cifar", "--depth", "8", "--image", "16", "--batch", "16"},
          {"plan fault [wrong-program]", "16x3x8x8", "16x3x16x16"});
  const PlanFile of_gpu({"--device", "h200"});
  CheckRefused(of_gpu.Training(), 1, {of_gpu.path(), "for device kind cuda, not for cpu"});
}

TEST_CASE("unknown engines, missing files and files that are not plans are refused") {
  const PlanFile plan;
  plan.Edit([](OrderedJson& json) {
    for (OrderedJson& action : json["actions"]) {
      if (action["op"] == "compute" && action["engines"].is_array()) {
        action["engines"][0]["engine"] = "eng999";
        return;
      }
    }
  });
  CheckRefused(plan.Training(), 1, {"'eng999'"});
  WriteText(plan.path(), "budget: 12GiB");
  CheckRefused(plan.Training(), 1, {plan.path(), "JSON"});
  WriteText(plan.path(), "");
  CheckRefused(plan.Training(), 1, {plan.path(), "JSON"});
  CheckRefused({"train", "lenet", "--device", "cpu", "--plan", "/no/such/plan"}, 1,
               {"/no/such/plan"});
}

TEST_CASE("--plan excludes the flags of planning") {
  for (const Args& choice : std::vector<Args>{{"--budget", "1GiB"},
                                              {"--policy", "liveness"},
                                              {"--host-budget=1GiB"},
                                              {"--placement", "offline"},
                                              {"--no-in-place"},
                                              {"--strict"},
                                              {"--half-accumulation"},
                                              {"--database", "profile.db"}}) {
    const std::string flag = choice.front().substr(0, choice.front().find('='));
    CheckRefused(Joined({"train", "lenet", "--plan", "plan.json"}, choice), 2,
                 {"--plan and " + flag + " exclude each other"});
  }
}

}  // namespace
}  // namespace neap::testing
