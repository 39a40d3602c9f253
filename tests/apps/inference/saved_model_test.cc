// neap eval, predict and export take the network and the names of its classes from the file of the
// weights.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/checkpoint/safetensors.h"
#include "neap/nets/onnx/onnx_file.h"
#include "tests/apps/command.h"
#include "tests/image_files.h"
#include "tests/scratch_directory.h"
#include "tests/skip.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;
using Args = std::vector<std::string>;

// Images of one colour for each class, which a network learns in a few steps.
void WriteClasses(const std::string& directory, const Args& classes, int images) {
  const std::vector<std::pair<std::string, std::array<uint8_t, 3>>> colors = {
      {"ant", {220, 30, 30}},
      {"bee", {30, 220, 30}},
      {"cat", {30, 30, 220}},
      {"dog", {220, 220, 30}},
      {"eel", {30, 220, 220}}};
  for (const auto& [name, color] : colors) {
    if (std::find(classes.begin(), classes.end(), name) == classes.end()) continue;
    std::filesystem::create_directories(directory + "/" + name);
    for (int i = 0; i < images; ++i) {
      const auto shade = static_cast<uint8_t>(2 * i);
      const TestImage image = Solid(16, 16, static_cast<uint8_t>(color[0] + shade),
                                    static_cast<uint8_t>(color[1] + shade), color[2]);
      WriteText(directory + "/" + name + "/" + std::to_string(i) + ".png", PngBytes(image));
    }
  }
}

const Args kFour = {"ant", "bee", "cat", "dog"};

// A trained network of four classes.
struct Trained {
  ScratchDirectory root;
  std::string train = root.File("train");
  std::string weights = root.File("w.safetensors");
  std::string checkpoint = root.File("c.safetensors");

  Trained() {
    WriteClasses(train, kFour, 8);
    const Json end = RunForJson({"train",         "resnet-cifar",
                                 "--depth",       "8",
                                 "--image",       "16",
                                 "--classes",     "4",
                                 "--device",      "cpu",
                                 "--data",        "imagefolder:" + train,
                                 "--batch",       "8",
                                 "--epochs",      "16",
                                 "--lr",          "0.05",
                                 "--weights-out", weights,
                                 "--save",        checkpoint})
                         .back();
    REQUIRE(end.at("loss") < 0.3);
  }
  Args Using(const std::string& command, const std::string& file, const Args& more) const {
    return Joined({command, "--weights", file, "--device", "cpu"}, more);
  }
};

TEST_CASE("classes are matched by name: a folder that lacks one is judged as the whole one is") {
  const Trained trained;
  const std::string all = trained.root.File("all"), three = trained.root.File("three");
  WriteClasses(all, kFour, 5);
  WriteClasses(three, {"ant", "cat", "dog"}, 5);
  for (const std::string& file : {trained.weights, trained.checkpoint}) {
    const Json whole =
        RunForJson(trained.Using("eval", file, {"--data", "imagefolder:" + all})).back();
    CHECK(whole.at("correct") == 20);
    CHECK(whole.at("net") == "resnet-cifar");
    CHECK(whole.at("notes") == Json::array());
    const Json part =
        RunForJson(trained.Using("eval", file, {"--data", "imagefolder:" + three})).back();
    CHECK(part.at("correct") == 15);
    CHECK(part.at("images") == 15);
    CHECK(part.at("notes") ==
          Json::array({"imagefolder:" + three + " has no images of 1 of 4 classes: bee"}));
  }
  WriteClasses(three, {"eel"}, 1);
  CheckRefused(trained.Using("eval", trained.weights, {"--data", "imagefolder:" + three}), 1,
               {three, "does not know the class 'eel'", "'ant', 'bee', 'cat', 'dog'"});
}

TEST_CASE(
    "predict prints files and names of classes, of a dataset, of a flat folder and of files") {
  const Trained trained;
  const std::string some = trained.root.File("some");
  WriteClasses(some, {"bee", "dog"}, 1);
  const auto run = [&](const Args& more) {
    return RunNeap(trained.Using("predict", trained.weights, more)).out;
  };
  const auto names = [](const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
      lines.push_back(line.substr(0, line.rfind(',')));
    return lines;
  };
  const std::string bee = some + "/bee/0.png", dog = some + "/dog/0.png";
  CHECK(names(run({"--data", "imagefolder:" + some})) ==
        Args{"image,label,class1", bee + ",bee,bee", dog + ",dog,dog"});
  CHECK(names(run({some})) == Args{"image,label,class1", bee + ",,bee", dog + ",,dog"});
  CHECK(names(run({dog, bee})) == Args{"image,label,class1", dog + ",,dog", bee + ",,bee"});
  CHECK(names(run({"resnet-cifar", bee})) == Args{"image,label,class1", bee + ",,bee"});

  const Json line =
      RunForJson(trained.Using("predict", trained.weights, {"--data", "imagefolder:" + some}))
          .back();
  CHECK(line.at("file") == dog);
  CHECK(line.at("label") == 3);
  CHECK(line.at("label_name") == "dog");
  CHECK(line.at("classes").at(0).at("class") == 3);
  CHECK(line.at("classes").at(0).at("name") == "dog");
  CHECK(RunForJson(trained.Using("predict", trained.weights, {dog})).back().at("label").is_null());
  CheckRefused(trained.Using("predict", trained.weights, {some + "/no.png"}), 2, {"no.png"});
  CheckRefused(trained.Using("predict", trained.weights, {bee, "--data", "synthetic"}), 2,
               {"--data"});
}

TEST_CASE(
    "flags that are not those of the file are said, and a file without a network is refused") {
  const Trained trained;
  const std::string data = "imagefolder:" + trained.train;
  const Json larger =
      RunForJson(trained.Using("eval", trained.weights, {"--data", data, "--image", "32"})).back();
  CHECK(larger.at("notes") == Json::array({"--image 32 is not that of " + trained.weights +
                                           ", which was trained with 16"}));
  const std::string bare = trained.root.File("bare.safetensors");
  absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(bare, {});
  REQUIRE(writer.ok());
  REQUIRE(writer->Commit().ok());
  for (const char* command : {"eval", "predict"})
    CheckRefused(trained.Using(command, bare, {}), 2, {"NET is missing", bare});
  CheckRefused({"eval"}, 2, {"NET is missing", "--weights FILE"});
  // The network alone is enough, as before.
  CheckRefused({"eval", "lenet", "--weights", bare, "--device", "cpu"}, 1, {"is missing"});
}

TEST_CASE("a training goes on with the class numbers of its checkpoint, or says that it does not") {
  const Trained trained;
  const std::string three = trained.root.File("three"), other = trained.root.File("other");
  WriteClasses(three, {"ant", "cat", "dog"}, 8);
  WriteClasses(other, {"ant", "bee", "cat", "eel"}, 8);
  const auto train = [&](const std::string& data, const Args& more) {
    return Joined({"train", "resnet-cifar", "--depth", "8", "--image", "16", "--classes", "4",
                   "--device", "cpu", "--data", "imagefolder:" + data, "--batch", "8"},
                  more);
  };
  const std::vector<Json> resumed =
      RunForJson(train(three, {"--resume", trained.checkpoint, "--steps", "65"}));
  CHECK(resumed.front().at("resumed_step") == 64);
  CHECK(resumed.front().at("notices").dump().find("no images of 1 of 4 classes: bee") !=
        std::string::npos);
  // cat is still cat: cats and dogs as the second and third class are learned anew.
  const std::string moved = trained.root.File("moved");
  WriteClasses(moved, {"ant", "cat", "dog"}, 8);
  std::filesystem::rename(moved + "/cat", moved + "/bee");
  std::filesystem::rename(moved + "/dog", moved + "/cat");
  const Json anew =
      RunForJson(train(moved, {"--resume", trained.checkpoint, "--steps", "65"})).back();
  CHECK(resumed.back().at("loss").get<double>() < anew.at("loss").get<double>() / 2);
  CheckRefused(train(other, {"--resume", trained.checkpoint, "--steps", "65"}), 1,
               {other, "'eel'"});
  const std::vector<Json> tuned =
      RunForJson(train(other, {"--weights-in", trained.weights, "--steps", "1"}));
  CHECK(tuned.front().at("notices").dump().find("has other classes than imagefolder:" + other) !=
        std::string::npos);
}

TEST_CASE(
    "data with more classes than a file's network has outputs are refused without --classes") {
  if (!nets::BuiltWithOnnx()) return SkipCase("this build has no ONNX");
  const Trained trained;
  const std::string file = trained.root.File("net.onnx");
  const Outcome exported =
      RunNeap({"export", "--weights", trained.weights, "--output", file});  // names no network
  REQUIRE_MESSAGE(exported.exit_code == 0, exported.err);
  WriteClasses(trained.train, {"eel"}, 1);
  const Outcome outcome = RunNeap(
      {"train", file, "--device", "cpu", "--batch", "8", "--data", "imagefolder:" + trained.train});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.find("has 5 classes but the network's output has 4, as its file says") !=
        std::string::npos);
  CHECK(outcome.err.find("--classes") == std::string::npos);
}

}  // namespace
}  // namespace neap::testing
