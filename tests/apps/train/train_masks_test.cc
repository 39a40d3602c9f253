// neap train and eval on images with masks, whose files are those of a folder.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"
#include "tests/image_files.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

// Images whose left part is bright, and masks where it is class 1. The first column has no label.
void WriteHalves(const std::string& directory, int images) {
  const std::filesystem::path folder = directory;
  std::filesystem::create_directories(folder / "images");
  std::filesystem::create_directories(folder / "masks");
  for (int i = 0; i < images; ++i) {
    TestImage image = Solid(20, 18, 30, 30, 30), mask = Solid(20, 18, 0, 0, 0);
    for (int y = 0; y < 18; ++y) {
      for (int x = 0; x < 20; ++x) {
        const size_t at = 3 * static_cast<size_t>(20 * y + x);
        const bool is_bright = x < 5 + i % 8;
        for (size_t c = 0; c < 3; ++c) image.rgb[at + c] = is_bright ? 220 : 30;
        mask.rgb[at] = x == 0 ? 255 : is_bright ? 1 : 0;
      }
    }
    const std::string name = std::to_string(i) + ".png";
    WriteText(folder / "images" / name, PngBytes(image));
    WriteText(folder / "masks" / name, PngBytes(mask, {.form = PngForm::kGrey}));
  }
}

struct MaskedHalves {
  MaskedHalves() {
    WriteHalves(root.File("train"), 8);
    WriteHalves(root.File("val"), 3);
  }
  Args Train(const Args& more) const {
    return Joined({"train", "unet", "--image", "16", "--batch", "2", "--device", "cpu", "--lr",
                   "0.02", "--data", "masks:" + root.path()},
                  more);
  }
  ScratchDirectory root;
};

TEST_CASE("masks train a network of as many classes, and --val and --eval report the mean IoU") {
  const MaskedHalves files;
  const std::string weights = files.root.File("unet.safetensors");
  const std::vector<Json> lines =
      RunForJson(files.Train({"--epochs", "2", "--augment", "--color-jitter", "0.1", "--eval",
                              "--val", "masks:" + files.root.path(), "--save", weights}));
  CHECK(lines.back().at("peaks_equal") == true);
  const Json evaluation = lines.back().at("evaluation");
  CHECK(evaluation.at("images") == 3);
  CHECK(evaluation.at("class_iou").size() == 2);
  CHECK(evaluation.at("mean_iou") >= 0);
  CHECK(evaluation.at("labels") < 3 * 16 * 16);  // the first column has none
  const std::vector<Json> evaluated =
      RunForJson({"eval", "--weights", weights, "--data", "masks:" + files.root.path(), "--split",
                  "val", "--device", "cpu"});
  CHECK(evaluated.back().at("correct") == evaluation.at("correct"));
  CHECK(evaluated.back().at("class_iou") == evaluation.at("class_iou"));
  const Outcome text = RunNeap(
      {"eval", "--weights", weights, "--data", "masks:" + files.root.path(), "--device", "cpu"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find(" pixels), mean IoU ") != std::string::npos);
}

TEST_CASE("masks and networks that do not fit each other are refused") {
  const MaskedHalves files;
  const std::string train = "masks:" + files.root.File("train");
  const Outcome no_test = RunNeap(files.Train({"--data", train, "--eval"}));
  CHECK(no_test.exit_code == 2);
  CHECK(no_test.err.find("has no test split; use --val SPEC") != std::string::npos);
  const Outcome classifier =
      RunNeap({"train", "resnet-cifar", "--depth", "8", "--image", "16", "--batch", "2",
               "--classes", "2", "--device", "cpu", "--data", train});
  CHECK(classifier.exit_code != 0);
  CHECK(classifier.err.find("has images of 3x16x16 with 256 labels each; the network takes images "
                            "of 3x16x16 with 1 label each") != std::string::npos);
}

}  // namespace
}  // namespace neap::testing
