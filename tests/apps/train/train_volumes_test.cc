// neap train and eval on volumes, whose files are those of a folder.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/command.h"
#include "tests/apps/train/tiny_training.h"
#include "tests/core/data/data_files.h"

namespace neap::testing {
namespace {

using Json = nlohmann::json;

constexpr int kVolumeEdge = 10;

// Volumes whose upper slices are bright, which are class 1.
void WriteSlices(const ScratchDirectory& root, const std::string& split, int volumes) {
  for (int i = 0; i < volumes; ++i) {
    std::vector<uint8_t> voxels, classes;
    for (int v = 0; v < kVolumeEdge * kVolumeEdge * kVolumeEdge; ++v) {
      const bool is_bright = v / (kVolumeEdge * kVolumeEdge) >= 3 + i % 3;
      classes.push_back(is_bright ? 1 : 0);
      voxels.push_back(static_cast<uint8_t>((is_bright ? 150 : 50) + v * 7 % 11));
    }
    const std::string name = std::to_string(i) + ".npy";
    WriteWithin(root, split + "/images/" + name,
                NpyBytes("|u1", "(10, 10, 10)", LittleEndian(voxels)));
    WriteWithin(root, split + "/labels/" + name,
                NpyBytes("|u1", "(10, 10, 10)", LittleEndian(classes)));
  }
}

struct SlicedVolumes {
  SlicedVolumes() {
    WriteSlices(root, "train", 8);
    WriteSlices(root, "test", 3);
  }
  std::string data() const { return "volumes:" + root.path(); }
  Args Train(const Args& more) const {
    return Joined(
        {"train", "nnunet3d", "--image", "8", "--batch", "2", "--device", "cpu", "--data", data()},
        more);
  }
  ScratchDirectory root;
};

// Plans of a small network for SlicedVolumes, whose data set has a class that no volume has.
std::string WritePlans(const ScratchDirectory& root,
                       const std::string& scheme = "ZScoreNormalization") {
  WriteText(root.File("dataset.json"),
            R"({"labels": {"background": 0, "bright": 1, "unseen": 2}})");
  WriteText(root.File("plans.json"),
            R"({"configurations": {"3d_fullres": {
  "batch_size": 3, "patch_size": [8, 8, 8], "normalization_schemes": [")" +
                scheme + R"("],
  "architecture": {"network_class_name": "PlainConvUNet", "arch_kwargs": {
    "n_stages": 2, "features_per_stage": [4, 8], "conv_op": "Conv3d",
    "kernel_sizes": [[3, 3, 3], [3, 3, 3]], "strides": [[1, 1, 1], [2, 2, 2]],
    "n_conv_per_stage": [1, 1], "n_conv_per_stage_decoder": [1], "conv_bias": true,
    "norm_op": "InstanceNorm3d", "norm_op_kwargs": {"affine": true}, "nonlin": "LeakyReLU"}}}}})");
  return "nnunet:" + root.File("plans.json");
}

TEST_CASE("a network of a plans file is evaluated and exported as it was trained") {
  const SlicedVolumes files;
  const ScratchDirectory plans;
  const std::string net = WritePlans(plans), best = plans.File("best.safetensors");
  const std::vector<Json> lines =
      RunForJson({"train", net, "--device", "cpu", "--data", files.data(), "--val", files.data(),
                  "--epochs", "1", "--save-best", best});
  CHECK(lines.back().at("peaks_equal") == true);
  const Json evaluated =
      RunForJson({"eval", "--weights", best, "--data", files.data(), "--device", "cpu"}).back();
  CHECK(evaluated.at("net") == net);
  CHECK(evaluated.at("class_dice").size() == 3);  // those of dataset.json
  const Outcome exported =
      RunNeap({"export", net, "--weights", best, "--onnx", plans.File("net.onnx")});
  CHECK_MESSAGE(exported.exit_code == 0, exported.err);
  std::filesystem::remove(plans.File("dataset.json"));  // now those of the data
  const std::string data =
      RunForJson({"train", net, "--device", "cpu", "--data", files.data(), "--steps", "1"})
          .front()
          .at("data");
  CHECK(data.find("1x8x8x8, 2 classes") != std::string::npos);
}

TEST_CASE("a plans file's batch is that of the command, unless it has another") {
  const ScratchDirectory plans;
  const Args plan = {"plan", WritePlans(plans), "--device", "cpu"};
  CHECK(RunForJson(plan).back().at("batch") == 3);
  CHECK(RunForJson(Joined(plan, {"--batch", "5"})).back().at("batch") == 5);
}

TEST_CASE("a network of volumes that are normalised otherwise is planned, but reads none") {
  const SlicedVolumes files;
  const ScratchDirectory plans;
  const std::string net = WritePlans(plans, "CTNormalization");
  CHECK(RunForJson({"plan", net, "--device", "cpu"}).back().at("batch") == 3);
  CheckRefused({"train", net, "--device", "cpu", "--data", files.data()}, 2,
               {"no nnU-Net whose 'normalization_schemes' is"});
  const std::string weights = plans.File("weights.safetensors");
  RunForJson({"train", net, "--device", "cpu", "--steps", "1", "--weights-out", weights});
  CheckRefused({"eval", "--weights", weights, "--device", "cpu", "--data", files.data()}, 2,
               {"no nnU-Net whose 'normalization_schemes' is"});
}

TEST_CASE("volumes train a network, and the best weights are those of the highest mean Dice") {
  const SlicedVolumes files;
  const std::string best = files.root.File("best.safetensors");
  const std::vector<Json> lines = RunForJson(
      files.Train({"--epochs", "3", "--eval", "--val", files.data(), "--save-best", best}));
  CHECK(lines.back().at("peaks_equal") == true);
  const Json evaluation = lines.back().at("evaluation");
  CHECK(evaluation.at("images") == 3);
  CHECK(evaluation.at("labels") == 3 * 8 * 8 * 8);
  CHECK(evaluation.at("class_dice").size() == 2);
  double highest = 0;
  for (const Json& line : lines) {
    if (line.at("event") != "epoch") continue;
    highest = std::max(highest, line.at("validation").at("mean_foreground_dice").get<double>());
  }
  CHECK(highest > 0.5);
  const Json evaluated =
      RunForJson({"eval", "--weights", best, "--data", files.data(), "--device", "cpu"}).back();
  CHECK(evaluated.at("mean_foreground_dice") == highest);
}

TEST_CASE("a validation of voxels is told as accuracy and mean Dice, not as top-1") {
  const SlicedVolumes files;
  const Outcome text = RunNeap(files.Train({"--steps", "4", "--val", files.data()}));
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("epoch 1/1, step 4: accuracy ") != std::string::npos);
  CHECK(text.out.find(" voxels), mean Dice ") != std::string::npos);
  CHECK(text.out.find("top-1") == std::string::npos);
}

TEST_CASE("volumes and networks that do not fit each other are refused") {
  const SlicedVolumes files;
  CheckRefused(files.Train({"--data", files.root.path()}), 1,
               {"has no labels for pixels or voxels", "volumes:DIR those of voxels"});
  CheckRefused(files.Train({"--sizes", "8,12"}), 1,
               {"--sizes are heights and widths of images", "volumes of 1x8x8x8"});
  CheckRefused({"train", "unet3d", "--image", "16", "--device", "cpu", "--data", files.data()}, 2,
               {"image must be a multiple of 32, not 16"});
}

}  // namespace
}  // namespace neap::testing
