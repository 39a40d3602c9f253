#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "apps/paper/paper_chart.h"
#include "apps/paper/paper_item.h"
#include "apps/paper/paper_report.h"
#include "tests/apps/command.h"

namespace neap::testing {
namespace {

using apps::PaperFigure;
using apps::PaperItem;
using apps::PaperNeeds;
using Json = nlohmann::json;

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("neap paper list names every item once, with what it needs") {
  const std::vector<PaperItem> items = apps::PaperItems();
  const Json listed = RunForJson({"paper", "list"}).at(0).at("items");
  REQUIRE(listed.size() == items.size());
  const std::string text = RunNeap({"paper", "list"}).out;
  std::set<std::string> names;
  for (size_t i = 0; i < items.size(); ++i) {
    CHECK(listed.at(i).at("item") == items[i].name);
    CHECK(text.find(items[i].name + " ") != std::string::npos);
    names.insert(items[i].name);
  }
  CHECK(names.size() == items.size());
}

TEST_CASE("an unknown item is answered with the one that is meant") {
  CheckRefused({"paper", "sn-tabel1"}, 2, {"unknown item 'sn-tabel1'", "did you mean sn-table1?"});
  CheckRefused({"paper"}, 2, {"NAME is missing"});
}

TEST_CASE("an item that is measured is refused without a device or times") {
  for (const PaperItem& item : apps::PaperItems()) {
    CAPTURE(item.name);
    if (item.needs == PaperNeeds::kDevice)
      CheckRefused({"paper", item.name}, 2, {item.name + " is measured", "--device"});
    if (item.needs == PaperNeeds::kTimes)
      CheckRefused({"paper", item.name}, 2, {item.name + " needs times", "--device", "--database"});
  }
  CheckRefused({"paper", "sn-table2", "--device", "h200"}, 2, {"h200", "only described"});
  CheckRefused({"paper", "sn-table1", "--database", "x.db"}, 2, {"--database needs --device"});
}

TEST_CASE("an item that is measured begins a new database") {
  const ScratchDirectory directory;
  const std::string database = directory.File("new.db");
  const Json report = RunForJson({"paper", "sn-table2", "--small", "--device", "cpu", "--database",
                                  database, "--steps", "1"})
                          .at(0);
  CHECK(report.at("item") == "sn-table2");
  CHECK(std::filesystem::exists(database));
}

TEST_CASE("AlexNet's published figures come out exactly") {
  const Json report = RunForJson({"paper", "sn-table1", "--small"}).at(0);
  const Json& alexnet = report.at("tables").at(0);
  CHECK(alexnet.at("title") == "AlexNet");
  const double published[] = {14, 23, 17, 993.018, 886.23, 886.23};
  REQUIRE(alexnet.at("figures").size() == std::size(published));
  for (size_t i = 0; i < std::size(published); ++i) {
    const Json& figure = alexnet.at("figures").at(i);
    CAPTURE(figure.at("what").get<std::string>());
    CHECK(figure.at("paper").get<double>() == published[i]);
    CHECK(figure.at("neap").get<double>() ==
          doctest::Approx(published[i]).epsilon(0.0005 / published[i]));
  }
  const std::string text = RunNeap({"paper", "sn-fig10"}).out;
  for (const char* line :
       {"2189.437 MiB  2189.437 MiB       equal", "1489.355 MiB  1489.355 MiB       equal",
        "1132.155 MiB  1132.056 MiB       -0.0%"})
    CHECK(text.find(line) != std::string::npos);
}

TEST_CASE("--out writes the picture, or everything that belongs to an item") {
  const ScratchDirectory directory;
  const std::string picture = directory.File("fig10.svg");
  CHECK(RunNeap({"paper", "sn-fig10", "--out", picture}).exit_code == 0);
  const std::string svg = Contents(picture);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("cost-aware recomputation") != std::string::npos);
  const std::string folder = directory.File("folder");
  std::filesystem::create_directory(folder);
  const Outcome outcome = RunNeap({"paper", "sn-fig10", "--out", folder});
  CHECK(Contents(folder + "/sn-fig10.txt") == outcome.out);
  CHECK(Contents(folder + "/sn-fig10.svg") == svg);
  CHECK(Json::parse(Contents(folder + "/sn-fig10.json")).at("item") == "sn-fig10");
  CheckRefused({"paper", "sn-fig10", "--out", directory.File("absent")}, 2,
               {"neither a folder nor a name in .svg"});
}

TEST_CASE("a difference is equal where both print the same, and else in percent of the paper's") {
  const auto difference = [](std::optional<double> paper, std::optional<double> ours) {
    return apps::Difference({.paper = paper, .ours = ours, .decimals = 1});
  };
  CHECK(difference(2.04, 2.0) == "equal");
  CHECK(difference(2, 2.5) == "+25.0%");
  CHECK(difference(0, 2.5) == "+2.5");
  CHECK(difference(std::nullopt, 2.5) == "-");
  CHECK(difference(2, std::nullopt) == "-");
}

TEST_CASE("a chart leaves out what a series lacks, and escapes what SVG requires") {
  const std::string svg =
      apps::ChartsSvg("a < b", {{.title = "t & u",
                                 .y_label = "y",
                                 .x = {"1", "2"},
                                 .series = {{.name = "s", .values = {3.0, std::nullopt}}}}});
  CHECK(svg.find("a &lt; b") != std::string::npos);
  CHECK(svg.find("t &amp; u") != std::string::npos);
  CHECK(svg.find("1, s: 3") != std::string::npos);
  CHECK(svg.find("2, s:") == std::string::npos);
}

}  // namespace
}  // namespace neap::testing
