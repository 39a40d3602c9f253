#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/apps/command.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kNet = {"resnet-cifar", "--depth", "8",       "--image", "8",
                                       "--channels",   "1",       "--batch", "50",      "--device",
                                       "cpu"};

std::vector<std::string> With(const std::string& subcommand, std::vector<std::string> more) {
  std::vector<std::string> args = {subcommand};
  args.insert(args.end(), kNet.begin(), kNet.end());
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Trains for a moment, and returns the accuracy that training reports at its end.
Json TrainDigits(const std::string& path) {
  return RunForJson(With("train", {"--data", "idx:" + Digits(), "--steps", "60", "--lr", "0.1",
                                   "--save", path, "--eval"}))
      .back();
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("eval and predict give the accuracy that training reports at its end") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("digits.safetensors");
  const Json trained = TrainDigits(weights);
  const std::vector<std::string> run = {"--weights", weights, "--data", "idx:" + Digits()};

  const Json evaluated = RunForJson(With("eval", run)).at(0);
  for (const auto& item : trained.at("evaluation").items()) {
    CAPTURE(item.key());
    CHECK(evaluated.at(item.key()) == item.value());
  }
  CHECK(evaluated.at("images") == 360);  // not a multiple of the batch
  CHECK(evaluated.at("labels") == 360);
  CHECK(evaluated.at("accuracy").get<double>() ==
        doctest::Approx(evaluated.at("correct").get<double>() / 360));
  CHECK(evaluated.at("loss") > 0);

  const std::vector<Json> predicted = RunForJson(With("predict", run));
  REQUIRE(predicted.size() == 360);
  int64_t correct = 0;
  for (const Json& line : predicted)
    correct += line.at("classes").at(0).at("class") == line.at("label") ? 1 : 0;
  CHECK(correct == evaluated.at("correct"));
}

TEST_CASE("predict writes a CSV file with --top classes per image") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("digits.safetensors");
  TrainDigits(weights);
  const std::string out = directory.File("predictions.csv");
  const Outcome outcome =
      RunNeap(With("predict", {"--weights", weights, "--data", "idx:" + Digits(), "--top", "3",
                               "--images", "7", "--out", out}));
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.empty());
  std::stringstream file;
  file << std::ifstream(out).rdbuf();
  const std::vector<std::string> lines = LinesOf(file.str());
  REQUIRE(lines.size() == 8);
  CHECK(lines[0] == "image,label,class1,probability1,class2,probability2,class3,probability3");
  CHECK(lines[7].starts_with("6,"));
  CHECK(std::count(lines[7].begin(), lines[7].end(), ',') == 7);
}

TEST_CASE("a network that labels pixels is predicted as a map of classes") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("unet.safetensors");
  const std::vector<std::string> net = {"unet", "--image", "16", "--batch", "2", "--device", "cpu"};
  RunForJson(Joined(Joined({"train"}, net), {"--steps", "1", "--save", weights}));
  const std::vector<Json> lines =
      RunForJson(Joined(Joined({"predict"}, net), {"--weights", weights, "--images", "3"}));
  REQUIRE(lines.size() == 3);
  CHECK(lines[2].at("image") == 2);
  CHECK(lines[2].at("classes").size() == 16 * 16);
  CheckRefused(Joined(Joined({"predict"}, net), {"--weights", weights, "--top", "3"}), 2,
               {"--top", "unet", "pixels"});
}

TEST_CASE("outputs that are not finite are refused with the image's number") {
  const ScratchDirectory directory;
  const std::string weights = directory.File("diverged.safetensors");
  const std::vector<std::string> net = {"lenet", "--batch", "4", "--device", "cpu"};
  const std::vector<std::string> training = Joined(Joined({"train"}, net), {"--lr", "1e38"});
  RunForJson(Joined(training, {"--steps", "1", "--weights-out", weights}));
  const std::vector<std::string> why = {"image 0 ", "not finite"};
  for (const char* command : {"eval", "predict"})
    CheckRefused(Joined(Joined({command}, net), {"--weights", weights}), 1, why);
  const std::string out = directory.File("predictions.csv");
  CheckRefused(Joined(Joined({"predict"}, net), {"--weights", weights, "--out", out}), 1, why);
  CHECK(!std::filesystem::exists(out));
}

TEST_CASE("a test whose outputs are not finite is reported and does not end a training") {
  const ScratchDirectory directory;
  const std::string saved = directory.File("diverged.safetensors");
  const std::vector<Json> lines =
      RunForJson({"train", "lenet", "--batch", "4", "--device", "cpu", "--lr", "1e38", "--steps",
                  "1", "--eval", "--save", saved});
  const Json& evaluation = lines.back().at("evaluation");
  CHECK(evaluation.at("loss").is_null());
  CHECK(evaluation.at("not_finite").get<std::string>().find("image 0 ") != std::string::npos);
  CHECK(std::filesystem::exists(saved));
}

TEST_CASE("eval and predict refuse missing and unsuitable weights in one line") {
  CheckRefused(With("eval", {}), 2, {"--weights FILE is missing"});
  CheckRefused(With("eval", {"--weights", "nothing.safetensors"}), 1, {"nothing.safetensors"});
  const ScratchDirectory directory;
  const std::string weights = directory.File("digits.safetensors");
  TrainDigits(weights);
  CheckRefused({"eval", "lenet", "--weights", weights, "--device", "cpu"}, 1, {weights});
  CheckRefused(With("predict", {"--weights", weights, "--out", weights}), 2, {"--out"});
}

}  // namespace
}  // namespace neap::testing
