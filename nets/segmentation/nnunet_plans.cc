#include "neap/nets/segmentation/nnunet_plans.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/file.h"
#include "neap/core/base/json_fields.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap::nets {
namespace {

using Json = JsonFields::Json;

constexpr int64_t kMaxPlansBytes = 64 * kMiB;
constexpr int64_t kMaxStages = 16, kMaxBlocks = 100, kMaxFeatures = 1 << 16;
constexpr int64_t kMaxPatchExtent = 1 << 16, kMaxPlansKernel = 63, kMaxPlansBatch = 1 << 24;

absl::StatusOr<Json> ReadJsonFile(const std::string& path) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  ASSIGN_OR_RETURN(const std::string text, file.ReadAll(kMaxPlansBytes));
  return ParseJson(text, path.c_str());
}

// The fields of a configuration and the errors about them.
class Configuration {
 public:
  Configuration(const std::string& path, const std::string& name, Json fields)
      : where_(absl::StrCat(path, ": configuration '", name, "'")), fields_(std::move(fields)) {
    if (!fields_.contains("architecture")) fields_["architecture"] = OlderArchitecture();
  }

  absl::Status Wrong(std::string_view field, std::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ": '", std::string(field), "' ", std::string(what)));
  }
  absl::Status Unsupported(std::string_view field, const Json& value) const {
    return absl::UnimplementedError(absl::StrCat(where_, ": neap has no nnU-Net whose '",
                                                 std::string(field), "' is ", value.dump()));
  }

  // Null if there is no such field.
  const Json& Field(const char* name) const { return In(fields_, name); }
  const Json& Argument(const char* name) const {
    return In(In(Field("architecture"), "arch_kwargs"), name);
  }
  const Json& ArgumentIn(const char* arguments, const char* name) const {
    return In(Argument(arguments), name);
  }
  static std::string Text(const Json& value) {
    return value.is_string() ? value.get<std::string>() : "";
  }

  absl::StatusOr<int64_t> Integer(const char* field, const Json& value, int64_t most) const {
    const bool fits = value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
                      value.get<uint64_t>() <= static_cast<uint64_t>(most);
    if (!fits)
      return Wrong(field, absl::StrCat("has ", value.dump(), ", not a number from 1 to ", most));
    return value.get<int64_t>();
  }
  // One for each of `count`, or one number for all.
  absl::StatusOr<std::vector<int64_t>> Integers(const char* field, const Json& value, size_t count,
                                                int64_t most) const {
    std::vector<int64_t> numbers;
    if (value.is_array() && value.size() != count)
      return Wrong(field, absl::StrCat("has ", value.size(), " elements, not ", count));
    for (size_t i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(const int64_t number,
                       Integer(field, value.is_array() ? value[i] : value, most));
      numbers.push_back(number);
    }
    return numbers;
  }
  // For each stage a number for each axis, or one for all.
  absl::StatusOr<std::vector<Extents>> Windows(const char* field, size_t stages,
                                               size_t axes) const {
    const Json& value = Argument(field);
    if (value.is_array() && value.size() != stages)
      return Wrong(field, absl::StrCat("has ", value.size(), " elements, not ", stages));
    std::vector<Extents> windows;
    for (size_t s = 0; s < stages; ++s) {
      ASSIGN_OR_RETURN(const std::vector<int64_t> along,
                       Integers(field, value.is_array() ? value[s] : value, axes, kMaxPlansKernel));
      windows.push_back(Extents::Of(along));
    }
    return windows;
  }

 private:
  static const Json& In(const Json& object, const char* name) {
    static const Json null;
    return object.is_object() && object.contains(name) ? object.at(name) : null;
  }

  // What stands in the fields of files from before "architecture", and what these left unsaid.
  Json OlderArchitecture() const {
    const bool residual = absl::EndsWith(Text(Field("UNet_class_name")), "ResidualEncoderUNet");
    const size_t axes = Field("patch_size").size();
    Json arguments = {
        {"conv_op", absl::StrCat("Conv", axes, "d")},
        {"conv_bias", true},
        {"norm_op", absl::StrCat("InstanceNorm", axes, "d")},
        {"nonlin", "LeakyReLU"},
        {"kernel_sizes", Field("conv_kernel_sizes")},
        {"strides", Field("pool_op_kernel_sizes")},
        {residual ? "n_blocks_per_stage" : "n_conv_per_stage", Field("n_conv_per_stage_encoder")},
        {"n_conv_per_stage_decoder", Field("n_conv_per_stage_decoder")}};
    const Json& base = Field("UNet_base_num_features");
    const Json& most = Field("unet_max_num_features");
    Json& features = arguments["features_per_stage"] = Json::array();
    for (size_t s = 0; s < Field("conv_kernel_sizes").size() && s < kMaxStages; ++s) {
      const bool are_numbers = base.is_number_unsigned() && most.is_number_unsigned();
      const uint64_t wanted =
          are_numbers ? std::min<uint64_t>(base.get<uint64_t>(), kMaxFeatures) << s : 0;
      features.push_back(are_numbers ? std::min(wanted, most.get<uint64_t>()) : 0);
    }
    arguments["norm_op_kwargs"] = {{"eps", 1e-5}, {"affine", true}};
    return {{"network_class_name", Field("UNet_class_name")}, {"arch_kwargs", arguments}};
  }

  std::string where_;
  Json fields_;
};

// What the planners always write, and neap's networks have. Fields whose absence means another
// network to the package are needed, too.
absl::Status CheckFixed(const Configuration& plan, size_t axes) {
  for (const auto& [field, wanted] :
       {std::pair<const char*, std::string>{"conv_op", absl::StrCat("Conv", axes, "d")},
        {"norm_op", absl::StrCat("InstanceNorm", axes, "d")},
        {"nonlin", "LeakyReLU"}}) {
    const Json& value = plan.Argument(field);
    if (!absl::EndsWith(plan.Text(value), wanted)) return plan.Unsupported(field, value);
  }
  for (const char* const field : {"dropout_op", "bottleneck_channels", "stem_channels"}) {
    if (!plan.Argument(field).is_null()) return plan.Unsupported(field, plan.Argument(field));
  }
  const Json& bias = plan.Argument("conv_bias");
  if (bias != true) return plan.Unsupported("conv_bias", bias);
  const Json& nonlin_first = plan.Argument("nonlin_first");
  if (!nonlin_first.is_null() && nonlin_first != false)
    return plan.Unsupported("nonlin_first", nonlin_first);
  const Json& block = plan.Argument("block");
  if (!block.is_null() && !absl::EndsWith(plan.Text(block), "BasicBlockD"))
    return plan.Unsupported("block", block);
  const Json& slope = plan.ArgumentIn("nonlin_kwargs", "negative_slope");
  if (!slope.is_null() && slope != 0.01) return plan.Unsupported("negative_slope", slope);
  const Json& epsilon = plan.ArgumentIn("norm_op_kwargs", "eps");
  if (!epsilon.is_null() && epsilon != 1e-5) return plan.Unsupported("eps", epsilon);
  const Json& affine = plan.ArgumentIn("norm_op_kwargs", "affine");
  return affine == true ? absl::OkStatus() : plan.Unsupported("affine", affine);
}

// Whether a VolumeFolder normalises volumes as the network's are: by the mean and deviation of all
// voxels of each.
absl::Status CheckNormalization(const Configuration& plan) {
  const Json& schemes = plan.Field("normalization_schemes");
  const Json& masks = plan.Field("use_mask_for_norm");
  for (size_t c = 0; schemes.is_array() && c < schemes.size(); ++c) {
    if (schemes[c] != "ZScoreNormalization")
      return plan.Unsupported("normalization_schemes", schemes);
  }
  for (size_t c = 0; masks.is_array() && c < masks.size(); ++c) {
    if (masks[c] != false) return plan.Unsupported("use_mask_for_norm", masks);
  }
  return absl::OkStatus();
}

absl::Status ReadStages(const Configuration& plan, NnUNetOptions& options) {
  const Json& features_of = plan.Argument("features_per_stage");
  const size_t stages = features_of.size(), axes = options.patch.size();
  if (!features_of.is_array() || stages < 2 || stages > kMaxStages)
    return plan.Wrong("features_per_stage", "has not 2 to 16 numbers");
  const Json& count = plan.Argument("n_stages");
  if (!count.is_null() && count != stages) {
    return plan.Wrong(
        "n_stages",
        absl::StrCat("is ", count.dump(), ", but 'features_per_stage' has ", stages, " numbers"));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> features,
                   plan.Integers("features_per_stage", features_of, stages, kMaxFeatures));
  ASSIGN_OR_RETURN(const std::vector<Extents> kernels, plan.Windows("kernel_sizes", stages, axes));
  ASSIGN_OR_RETURN(const std::vector<Extents> strides, plan.Windows("strides", stages, axes));
  const char* const blocks_field = options.residual ? "n_blocks_per_stage" : "n_conv_per_stage";
  ASSIGN_OR_RETURN(const std::vector<int64_t> blocks,
                   plan.Integers(blocks_field, plan.Argument(blocks_field), stages, kMaxBlocks));
  constexpr const char* kDecoder = "n_conv_per_stage_decoder";
  ASSIGN_OR_RETURN(const std::vector<int64_t> decoder,
                   plan.Integers(kDecoder, plan.Argument(kDecoder), stages - 1, kMaxBlocks));
  for (size_t s = 0; s < stages; ++s) {
    // The decoder's first one is that of the lowest resolution.
    const int64_t decoder_blocks = s + 1 < stages ? decoder[stages - 2 - s] : 0;
    options.stages.push_back({.features = features[s],
                              .kernel = kernels[s],
                              .stride = strides[s],
                              .blocks = blocks[s],
                              .decoder_blocks = decoder_blocks});
  }
  return absl::OkStatus();
}

absl::StatusOr<NnUNetOptions> OptionsOf(const Configuration& plan) {
  NnUNetOptions options;
  const Json& patch = plan.Field("patch_size");
  if (!patch.is_array() || patch.size() < 2 || patch.size() > 3)
    return plan.Wrong("patch_size", "has not 2 or 3 numbers");
  ASSIGN_OR_RETURN(options.patch,
                   plan.Integers("patch_size", patch, patch.size(), kMaxPatchExtent));
  ASSIGN_OR_RETURN(options.graph.batch,
                   plan.Integer("batch_size", plan.Field("batch_size"), kMaxPlansBatch));
  const Json& architecture = plan.Field("architecture");
  const Json name = architecture.is_object() && architecture.contains("network_class_name")
                        ? architecture.at("network_class_name")
                        : Json();
  options.residual = absl::EndsWith(plan.Text(name), "ResidualEncoderUNet");
  if (!options.residual && !absl::EndsWith(plan.Text(name), "PlainConvUNet"))
    return plan.Unsupported("network_class_name", name);
  options.graph.name = options.residual ? "resenc-unet" : absl::StrCat("nnunet", patch.size(), "d");
  RETURN_IF_ERROR(CheckFixed(plan, options.patch.size()));
  RETURN_IF_ERROR(ReadStages(plan, options));
  const Json& batch_dice = plan.Field("batch_dice");
  if (!batch_dice.is_null() && !batch_dice.is_boolean())
    return plan.Wrong("batch_dice", "is neither true nor false");
  options.batch_dice = batch_dice.is_boolean() && batch_dice.get<bool>();
  return options;
}

std::string NamesOf(const Json& configurations) {
  std::vector<std::string> names;
  for (const auto& item : configurations.items()) names.push_back(item.key());
  return absl::StrJoin(names, ", ");
}

// With what it inherits.
absl::StatusOr<Json> Inherited(const std::string& path, const Json& configurations,
                               const std::string& name) {
  std::vector<Json> from;  // the parent behind its heir
  std::set<std::string> visited;
  for (std::string next = name; !next.empty();) {
    if (!configurations.contains(next) || !configurations.at(next).is_object()) {
      return absl::NotFoundError(absl::StrCat(path, ": there is no configuration '", next,
                                              "'; there are ", NamesOf(configurations)));
    }
    if (!visited.insert(next).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": configuration '", next, "' inherits from itself"));
    }
    const Json& own = from.emplace_back(configurations.at(next));
    next = own.contains("inherits_from") && own.at("inherits_from").is_string()
               ? own.at("inherits_from").get<std::string>()
               : "";
  }
  Json all = Json::object();
  for (size_t i = from.size(); i-- > 0;) all.update(from[i]);
  return all;
}

// The classes of the data set whose plans these are, as its file says; nullopt without a file.
absl::StatusOr<std::optional<int64_t>> ClassesIn(const std::string& path) {
  const absl::StatusOr<Json> dataset = ReadJsonFile(path);
  if (absl::IsNotFound(dataset.status())) return std::nullopt;
  RETURN_IF_ERROR(dataset.status());
  const bool has_labels =
      dataset->is_object() && dataset->contains("labels") && dataset->at("labels").is_object();
  if (!has_labels) return absl::InvalidArgumentError(absl::StrCat(path, ": has no labels"));
  int64_t classes = 0;
  for (const auto& item : dataset->at("labels").items()) {
    if (item.value().is_array() && item.value().size() > 1) {
      return absl::UnimplementedError(
          absl::StrCat(path, ": the label '", item.key(),
                       "' is a region of several labels, for which neap has no nnU-Net"));
    }
    classes += item.key() == "ignore" ? 0 : 1;
  }
  return classes;
}

}  // namespace

absl::StatusOr<NnUNetOptions> ReadNnUNetPlans(const std::string& path,
                                              const NnUNetPlansOptions& given) {
  ASSIGN_OR_RETURN(const Json plans, ReadJsonFile(path));
  const bool has_plans = plans.is_object() && plans.contains("configurations") &&
                         plans.at("configurations").is_object();
  if (!has_plans) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no plans file of nnU-Net: it has no configurations"));
  }
  const Json& configurations = plans.at("configurations");
  std::string name = given.configuration;
  if (name.empty()) name = configurations.contains("3d_fullres") ? "3d_fullres" : "2d";
  ASSIGN_OR_RETURN(Json fields, Inherited(path, configurations, name));
  const Configuration plan(path, name, std::move(fields));
  ASSIGN_OR_RETURN(NnUNetOptions options, OptionsOf(plan));
  const std::string dataset = (std::filesystem::path(path).parent_path() / "dataset.json").string();
  ASSIGN_OR_RETURN(const std::optional<int64_t> planned, ClassesIn(dataset));
  const std::optional<int64_t> classes = given.classes.has_value() ? given.classes : planned;
  if (!classes.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": plans do not say how many classes there are; give their number, or have ",
        dataset));
  }
  options.classes = *classes;
  const Json& schemes = plan.Field("normalization_schemes");
  if (!schemes.is_array() && !given.channels.has_value())
    return plan.Wrong("normalization_schemes", "is missing, so the channels are not known");
  if (!given.other_normalizations) RETURN_IF_ERROR(CheckNormalization(plan));
  const bool is_cascaded = plan.Field("previous_stage").is_string();
  options.channels =
      given.channels.value_or(std::ssize(schemes) + (is_cascaded ? options.classes - 1 : 0));
  return options;
}

}  // namespace neap::nets
