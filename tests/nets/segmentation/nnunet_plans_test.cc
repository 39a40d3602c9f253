#include "neap/nets/segmentation/nnunet_plans.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "neap/nets/registry.h"
#include "tests/nets/resolved.h"
#include "tests/scratch_directory.h"

namespace neap::nets {
namespace {

// As nnU-Net 2.4 writes it, without what neap does not read.
constexpr char kPlans[] = R"({
  "dataset_name": "Dataset999_Blobs",
  "configurations": {
    "2d": {
      "batch_size": 12, "patch_size": [64, 32], "batch_dice": true,
      "normalization_schemes": ["ZScoreNormalization", "ZScoreNormalization"],
      "architecture": {
        "network_class_name": "dynamic_network_architectures.architectures.unet.PlainConvUNet",
        "arch_kwargs": {
          "n_stages": 3, "features_per_stage": [32, 64, 128],
          "conv_op": "torch.nn.modules.conv.Conv2d",
          "kernel_sizes": [[3, 3], [3, 3], [3, 3]], "strides": [[1, 1], [2, 2], [2, 1]],
          "n_conv_per_stage": [2, 2, 2], "n_conv_per_stage_decoder": [2, 1],
          "conv_bias": true, "norm_op": "torch.nn.modules.instancenorm.InstanceNorm2d",
          "norm_op_kwargs": {"eps": 1e-05, "affine": true},
          "dropout_op": null, "dropout_op_kwargs": null,
          "nonlin": "torch.nn.LeakyReLU", "nonlin_kwargs": {"inplace": true}},
        "_kw_requires_import": ["conv_op", "norm_op", "dropout_op", "nonlin"]}},
    "3d_fullres": {
      "batch_size": 2, "patch_size": [16, 32, 32], "batch_dice": false,
      "normalization_schemes": ["ZScoreNormalization", "ZScoreNormalization"],
      "architecture": {
        "network_class_name": "dynamic_network_architectures.architectures.unet.ResidualEncoderUNet",
        "arch_kwargs": {
          "n_stages": 3, "features_per_stage": [32, 64, 128],
          "conv_op": "torch.nn.modules.conv.Conv3d",
          "kernel_sizes": [[1, 3, 3], [3, 3, 3], [3, 3, 3]],
          "strides": [[1, 1, 1], [1, 2, 2], [2, 2, 2]],
          "n_blocks_per_stage": [1, 3, 4], "n_conv_per_stage_decoder": [1, 1],
          "conv_bias": true, "norm_op": "torch.nn.modules.instancenorm.InstanceNorm3d",
          "norm_op_kwargs": {"eps": 1e-05, "affine": true}, "dropout_op": null,
          "nonlin": "torch.nn.LeakyReLU"}}},
    "3d_large": {"inherits_from": "3d_fullres", "batch_size": 4},
    "3d_cascade": {"inherits_from": "3d_large", "previous_stage": "3d_lowres"},
    "loop": {"inherits_from": "loop_too"},
    "loop_too": {"inherits_from": "loop"},
    "older": {
      "batch_size": 3, "patch_size": [32, 32, 32], "batch_dice": false,
      "normalization_schemes": ["ZScoreNormalization"],
      "UNet_class_name": "PlainConvUNet", "UNet_base_num_features": 32,
      "unet_max_num_features": 80, "n_conv_per_stage_encoder": [2, 2, 2],
      "n_conv_per_stage_decoder": [2, 2], "num_pool_per_axis": [2, 2, 2],
      "pool_op_kernel_sizes": [[1, 1, 1], [2, 2, 2], [2, 2, 2]],
      "conv_kernel_sizes": [[3, 3, 3], [3, 3, 3], [3, 3, 3]]}
  }
})";
constexpr char kDataset[] =
    R"({"labels": {"background": 0, "liver": 1, "tumour": 2, "ignore": 3}, "numTraining": 9})";

class PlansFolder {
 public:
  explicit PlansFolder(const std::string& plans = kPlans, const std::string& dataset = kDataset) {
    std::ofstream(path()) << plans;
    if (!dataset.empty()) std::ofstream(folder_.File("dataset.json")) << dataset;
  }
  std::string path() const { return folder_.File("nnUNetPlans.json"); }
  absl::StatusOr<NnUNetOptions> Read(const std::string& configuration) const {
    return ReadNnUNetPlans(path(), {.configuration = configuration});
  }

 private:
  ScratchDirectory folder_;
};

std::string RefusalOf(const PlansFolder& folder, const std::string& configuration) {
  const absl::StatusOr<NnUNetOptions> options = folder.Read(configuration);
  REQUIRE_FALSE(options.ok());
  return std::string(options.status().message()).substr(folder.path().size());
}

TEST_CASE("a plans file has a network for each configuration") {
  const PlansFolder folder;
  const NnUNetOptions images = folder.Read("2d").value();
  CHECK(images.graph.name == "nnunet2d");
  CHECK((images.graph.batch == 12 && images.channels == 2 && images.classes == 3));
  CHECK((images.batch_dice && !images.residual));
  CHECK(images.patch == std::vector<int64_t>{64, 32});
  CHECK(images.stages[2].stride == Extents(2, 1));
  CHECK(images.stages[0].decoder_blocks == 1);  // the file begins with the lowest resolution
  CHECK(images.stages[1].decoder_blocks == 2);
  CHECK(Resolved(NnUNet(images)).shape("loss") == "12x3x64x32");
  const NnUNetOptions volumes = folder.Read("").value();  // 3d_fullres
  CHECK((volumes.residual && !volumes.batch_dice && volumes.graph.batch == 2));
  CHECK(volumes.stages[0].kernel == Extents(1, 3, 3));
  CHECK(volumes.stages[2].blocks == 4);
  CHECK(Resolved(NnUNet(volumes)).shape("encoder.stages.2.blocks.3.nonlin2") == "2x128x8x8x8");
}

TEST_CASE("configurations inherit, and those behind others have further channels") {
  const PlansFolder folder;
  CHECK(folder.Read("3d_large")->graph.batch == 4);
  CHECK(folder.Read("3d_large")->stages.size() == 3);
  CHECK(folder.Read("3d_cascade")->channels == 2 + 2);  // one for each class but the background
  const absl::StatusOr<NnUNetOptions> given =
      ReadNnUNetPlans(folder.path(), {.configuration = "3d_cascade", .classes = 3, .channels = 4});
  CHECK(given->channels == 4);  // those of the network, as files of its weights say
  CHECK(RefusalOf(folder, "loop") == ": configuration 'loop' inherits from itself");
  CHECK(absl::IsNotFound(folder.Read("3d_lowres").status()));
  CHECK(RefusalOf(folder, "3d_lowres") ==
        ": there is no configuration '3d_lowres'; there are 2d, 3d_fullres, 3d_large, 3d_cascade, "
        "loop, loop_too, older");
}

TEST_CASE("plans from before the field \"architecture\" are read") {
  const NnUNetOptions options = PlansFolder().Read("older").value();
  CHECK_FALSE(options.residual);
  CHECK(options.stages[1].features == 64);
  CHECK(options.stages[2].features == 80);
  CHECK(Resolved(NnUNet(options)).shape("loss") == "3x3x32x32x32");
}

TEST_CASE("a plans file is a network by name") {
  const PlansFolder folder;
  const std::string name = absl::StrCat("nnunet:", folder.path());
  CHECK(Build(name, {})->options().batch == 2);
  const Graph images = Build(name + "#2d", {.batch = 3, .channels = 1, .classes = 7}).value();
  CHECK(Resolved(images).shape("input") == "3x1x64x32");
  CHECK(Resolved(images).shape("loss") == "3x7x64x32");
  CHECK(Build(name, {.image = 64}).status().message() ==
        absl::StrCat("network '", name, "' takes no image: the plan has its patch"));
  CHECK(absl::IsInvalidArgument(Build(name, {.depth = 3}).status()));
  CHECK(absl::IsNotFound(Build("nnunet:/no/such/file.json", {}).status()));
  const ScratchDirectory numbered;  // whose path has a '#' that begins no configuration
  std::filesystem::create_directory(numbered.File("#1"));
  std::filesystem::copy_file(folder.path(), numbered.File("#1/plans.json"));
  const std::string within = absl::StrCat("nnunet:", numbered.File("#1/plans.json"));
  CHECK(Build(within, {.classes = 2})->options().batch == 2);
  CHECK(Build(within + "#2d", {.classes = 2})->options().batch == 12);
}

TEST_CASE("the number of classes is that of dataset.json, or given") {
  const PlansFolder alone(kPlans, "");
  CHECK(RefusalOf(alone, "2d").find("plans do not say how many classes there are") !=
        std::string::npos);
  CHECK(ReadNnUNetPlans(alone.path(), {.configuration = "2d", .classes = 4})->classes == 4);
  const PlansFolder regions(kPlans, R"({"labels": {"background": 0, "whole tumour": [1, 2]}})");
  CHECK(absl::IsUnimplemented(regions.Read("2d").status()));
  CHECK(absl::IsUnimplemented(
      ReadNnUNetPlans(regions.path(), {.configuration = "2d", .classes = 2}).status()));
}

TEST_CASE("what neap's networks do not have is refused by name") {
  const auto changed = [](const char* from, const char* to) {
    return PlansFolder(absl::StrReplaceAll(kPlans, {{from, to}}));
  };
  CHECK(RefusalOf(changed("\"conv_bias\": true", "\"conv_bias\": false"), "2d") ==
        ": configuration '2d': neap has no nnU-Net whose 'conv_bias' is false");
  CHECK(RefusalOf(changed("\"conv_bias\": true, ", ""), "2d") ==
        ": configuration '2d': neap has no nnU-Net whose 'conv_bias' is null");
  CHECK(RefusalOf(changed("{\"inplace\": true}", "{\"negative_slope\": 0.2}"), "2d") ==
        ": configuration '2d': neap has no nnU-Net whose 'negative_slope' is 0.2");
  CHECK(changed("{\"inplace\": true}", "{\"negative_slope\": 0.01}").Read("2d").ok());
  CHECK(RefusalOf(changed("conv.Conv2d", "conv.Conv3d"), "2d").find("'conv_op' is") !=
        std::string::npos);
  CHECK(RefusalOf(changed("\"n_stages\": 3", "\"n_stages\": 4"), "2d") ==
        ": configuration '2d': 'n_stages' is 4, but 'features_per_stage' has 3 numbers");
  CHECK(RefusalOf(changed("InstanceNorm2d", "BatchNorm2d"), "2d").find("'norm_op' is") !=
        std::string::npos);
  CHECK(RefusalOf(changed("unet.PlainConvUNet", "primus.Primus"), "2d").find("Primus") !=
        std::string::npos);
  CHECK(RefusalOf(changed("[[1, 1], [2, 2], [2, 1]]", "[[1, 1], [2, 2]]"), "2d") ==
        ": configuration '2d': 'strides' has 2 elements, not 3");
  CHECK(RefusalOf(changed("[32, 64, 128]", "[32, 64, -1]"), "2d").find("'features_per_stage'") !=
        std::string::npos);
  const PlansFolder ct = changed("[\"ZScoreNormalization\", \"Z", "[\"CTNormalization\", \"Z");
  CHECK(RefusalOf(ct, "2d") ==
        ": configuration '2d': neap has no nnU-Net whose "
        "'normalization_schemes' is "
        "[\"CTNormalization\",\"ZScoreNormalization\"]");
  CHECK(ReadNnUNetPlans(ct.path(), {.configuration = "2d", .other_normalizations = true}).ok());
  const std::string by_name = absl::StrCat("nnunet:", ct.path(), "#2d");
  CHECK_FALSE(Build(by_name, {}).ok());
  CHECK(Build(by_name, {.other_normalizations = true}).ok());
  const PlansFolder masked = changed("\"batch_dice\": true,",
                                     "\"batch_dice\": true, \"use_mask_for_norm\": [false, true],");
  CHECK(RefusalOf(masked, "2d") ==
        ": configuration '2d': neap has no nnU-Net whose 'use_mask_for_norm' is [false,true]");
  CHECK(ReadNnUNetPlans(masked.path(), {.configuration = "2d", .other_normalizations = true}).ok());
  CHECK(changed("\"batch_dice\": true,", "\"batch_dice\": true, \"use_mask_for_norm\": [false],")
            .Read("2d")
            .ok());
  CHECK(RefusalOf(PlansFolder("{}"), "2d") ==
        ": is no plans file of nnU-Net: it has no configurations");
  CHECK(RefusalOf(PlansFolder("{"), "2d").find("the text is not JSON") != std::string::npos);
}

}  // namespace
}  // namespace neap::nets
