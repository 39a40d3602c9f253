// neap devices --measure-collectives, and plans that use what it has measured.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/command.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

TEST_CASE("measured sums are kept, and plans for as many ranks take their time from there") {
  const ScratchDirectory scratch;
  const std::string database = scratch.File("profile.db");
  const Json sums =
      RunForJson({"devices", "--measure-collectives", "cpu,cpu", "--database", database, "--json"})
          .at(0);
  CHECK(sums.at("ranks") == 2);
  REQUIRE(sums.at("sums").size() == 5);
  CHECK(sums.at("latency_seconds") == sums.at("sums")[0].at("seconds"));
  const double rate = sums.at("bytes_per_second");
  CHECK(rate > 0);
  const auto data_parallel = [&](const std::string& ranks, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"plan", "alexnet", "--batch", "8",          "--device",
                                     "cpu",  "--ranks", ranks,     "--database", database};
    args.insert(args.end(), more.begin(), more.end());
    return RunForJson(args).at(0).at("data_parallel");
  };
  const Json measured = data_parallel("2", {});
  const double bytes = measured.at("sum_bytes");
  CHECK(measured.at("sum_ms").get<double>() == doctest::Approx(1e3 * bytes / rate).epsilon(0.1));
  CHECK(data_parallel("3", {}).at("sum_ms") == 0);  // not measured
  CHECK(data_parallel("2", {"--link", "1GB"}).at("sum_ms").get<double>() ==
        doctest::Approx(1e3 * bytes / 1e9).epsilon(0.1));
}

TEST_CASE("a plan for ranks says that sums without a time are taken to cost nothing") {
  const std::vector<std::string> plan = {"plan", "lenet",      "--batch", "8",       "--device",
                                         "cpu",  "--database", "none",    "--ranks", "2"};
  std::vector<std::string> linked = plan;
  linked.insert(linked.end(), {"--link", "1GB"});
  CHECK(RunNeap(plan).out.find("sums over ranks      taken to cost nothing") != std::string::npos);
  CHECK(RunNeap(linked).out.find("taken to cost nothing") == std::string::npos);
}

TEST_CASE("a single rank has no sums to measure, and without a file there is no place for times") {
  CheckRefused({"devices", "--measure-collectives", "cpu"}, 2, {"needs several devices"});
  CheckRefused({"devices", "--measure-collectives", "cpu,cpu", "--database", "none"}, 2,
               {"kept in a file"});
}

}  // namespace
}  // namespace neap::testing
