// The largest batch that keeps a part of its speed.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

TEST_CASE("--keep finds a batch that keeps its predicted speed, and the next one does not") {
  const Args net = {"lenet", "--device", "h200", "--database", "none"};
  const Args search = Joined({"peak-batch"}, Joined(net, {"--budget", "6MiB"}));
  const Json all = RunForJson(search).at(0).at("results").at(0);
  CHECK(!all.contains("kept"));
  const Json row = RunForJson(Joined(search, {"--keep", "95%"})).at(0).at("results").at(0);
  CHECK(row.at("limited_by") == "speed");
  const int64_t batch = row.at("batch"), parts = row.at("sub_batches");
  CHECK(batch < all.at("batch"));
  const Args in_budget = {"--budget", "6MiB", "--sub-batches", std::to_string(parts)};
  const auto percent = [&](int64_t n) {
    const Args sized = Joined(Joined({"plan"}, net), {"--batch", std::to_string(n)});
    const auto ms = [&](const Args& flags) {
      const Json plan = RunForJson(Joined(sized, flags)).at(0);
      return plan.at("predicted_ms").get<double>() + plan.at("batch_copy_ms").get<double>();
    };
    return 100 * ms({}) / ms(in_budget);
  };
  CHECK(percent(batch) == doctest::Approx(row.at("kept").at("percent").get<double>()));
  CHECK(percent(batch) >= 95);
  CHECK(percent(batch + 1) < 95);
  CHECK(row.at("kept").at("unlimited_is_measured") == false);
  const Args at_batch = Joined(Joined({"plan"}, net), {"--batch", std::to_string(batch)});
  CHECK(row.at("predicted_ms") == RunForJson(Joined(at_batch, in_budget)).at(0).at("predicted_ms"));
  const std::string text = RunNeap(Joined(search, {"--keep=95%"})).out;
  CHECK(text.find("(limited by the speed to keep)\n") != std::string::npos);
  const bool has_parts =
      text.find("\n    in " + std::to_string(parts) + " sub-batches\n") != std::string::npos;
  CHECK(has_parts == (parts > 1));
  const double kept = row.at("kept").at("percent");
  CHECK(text.find(absl::StrFormat("\n    keeps %.1f%% of its speed", kept)) != std::string::npos);
  CHECK(text.find("images/s, both predicted\n") != std::string::npos);
}

TEST_CASE("a budget that costs no speed keeps all of it at the largest batch") {
  const Json row = RunForJson({"peak-batch", "lenet", "--device", "h200", "--database", "none",
                               "--policy", "liveness", "--budget", "64MiB", "--keep", "1%"})
                       .at(0)
                       .at("results")
                       .at(0);
  CHECK(row.at("limited_by") == "budget");
  CHECK(row.at("kept").at("percent") > 1);
}

TEST_CASE("--keep with --run also measures the speed without a budget at that batch") {
  const Args search = {"peak-batch", "lenet",    "--device", "cpu",    "--database",
                       "none",       "--budget", "8MiB",     "--keep", "50%",
                       "--run",      "--steps",  "2"};
  const Json row = RunForJson(search).at(0).at("results").at(0);
  const Json& kept = row.at("measured_kept");
  CHECK(row.at("run").at("batch") == row.at("batch"));
  CHECK(kept.at("unlimited_is_measured") == true);
  CHECK(kept.at("images_per_second") == row.at("run").at("images_per_second"));
  CHECK(kept.at("unlimited_images_per_second") > 0);
  CHECK(kept.at("percent").get<double>() ==
        doctest::Approx(100 * kept.at("images_per_second").get<double>() /
                        kept.at("unlimited_images_per_second").get<double>()));
  CHECK(RunNeap(search).out.find("images/s, both measured\n") != std::string::npos);
}

}  // namespace
}  // namespace neap::testing
