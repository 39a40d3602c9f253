#include "apps/cli/net_flags.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/cli/numbers.h"
#include "apps/cli/outcome.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/with_options.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/nets/onnx/onnx_file.h"
#include "neap/nets/with_loss.h"

namespace neap::apps {
namespace {

constexpr char kCrossEntropy[] = "cross-entropy";

FlagValue Blocks(std::optional<std::array<int64_t, 4>>* value) {
  const auto read = [value](const std::string& text) {
    const std::vector<std::string> parts = absl::StrSplit(text, ',');
    std::array<int64_t, 4> blocks = {};
    bool right = parts.size() == blocks.size();
    for (size_t i = 0; right && i < blocks.size(); ++i) {
      const std::optional<int64_t> number = ReadWhole(parts[i]);
      right = number.has_value();
      blocks[i] = number.value_or(0);
    }
    if (!right) return BadUsage("four numbers are needed, as in 3,4,6,3");
    *value = blocks;
    return absl::OkStatus();
  };
  return {.read = read};
}

FlagValue Probability(std::optional<float>* value) {
  const auto read = [value](const std::string& text) {
    const std::optional<double> number = ReadDecimal(text);
    const auto probability = static_cast<float>(number.value_or(-1));
    if (!(probability >= 0 && probability < 1)) {
      return BadUsage("a number from 0 up to, but not including, 1 is needed");
    }
    *value = probability;
    return absl::OkStatus();
  };
  return {.read = read};
}

// The same network, of which every layer stays a layer of its own.
Graph WithoutFusion(const Graph& graph) {
  GraphOptions options = graph.options();
  options.fusion = false;
  Graph unfused(std::move(options), graph);
  for (const GraphLayer& layer : graph.layers()) unfused.Add(layer);
  return unfused;
}

// Flags of networks by name. A file says all this itself.
absl::Status CheckOnnxOptions(const nets::NetOptions& options) {
  for (const auto& [flag, is_given] : {std::pair("--channels", options.channels.has_value()),
                                       {"--classes", options.classes.has_value()},
                                       {"--depth", options.depth.has_value()},
                                       {"--blocks", options.blocks.has_value()},
                                       {"--growth-rate", options.growth_rate.has_value()},
                                       {"--dropout", options.dropout.has_value()},
                                       {"--aux-logits", options.aux_logits}}) {
    if (is_given) return BadUsage(absl::StrCat("a network from an ONNX file takes no ", flag));
  }
  return absl::OkStatus();
}

Layer LossFrom(const std::string& name) {
  if (name == "mse") return MeanSquaredError{};
  if (name == "bce") return BinaryCrossEntropy{};
  return SoftmaxCrossEntropy{};
}

absl::StatusOr<nets::OnnxModel> ReadFile(const std::string& path, const nets::NetOptions& options,
                                         const std::string& loss) {
  RETURN_IF_ERROR(CheckOnnxOptions(options));
  return nets::ReadOnnx(path, {.batch = *options.batch,
                               .image = options.image,
                               .dtype = options.dtype,
                               .layout = options.layout,
                               .loss = LossFrom(loss)});
}

}  // namespace

bool IsOnnxFile(const std::string& name) { return absl::EndsWithIgnoreCase(name, ".onnx"); }

void NetFlags::AddTo(FlagSet& flags) {
  flags.Positional("NET", kNetHelp, &name);
  AddSizesTo(flags);
}

void NetFlags::AddSizesTo(FlagSet& flags) {
  AddBatchTo(flags);
  AddShapesTo(flags);
  AddDepthTo(flags);
  AddLossTo(flags);
}

void NetFlags::AddBatchTo(FlagSet& flags) {
  flags.Add("batch", "N", "images in a batch, unless nnunet:FILE plans another",
            Integer(1, kMaxNetNumber, &options.batch));
}

void NetFlags::AddDepthTo(FlagSet& flags) {
  flags.Add(
      "depth", "N",
      "layers of resnet (3n+134), densenet (2n+43), resnet-cifar (6n+2), densenet-cifar (3n+4), "
      "densenet-bc-cifar (6n+4), blocks of gpt2",
      Integer(1, kMaxNetNumber, &options.depth));
  flags.Add("blocks", "N,N,N,N", "blocks per stage of resnet, layers per block of densenet",
            Blocks(&options.blocks));
}

void NetFlags::AddFormatTo(FlagSet& flags) {
  flags.Add("dtype", "TYPE", "element type", OneOf({"fp32", "tf32", "fp16", "bf16"}, &dtype));
  flags.Add("layout", "ORDER", "order of the axes in memory", OneOf({"nchw", "nhwc"}, &layout));
}

void NetFlags::AddShapesTo(FlagSet& flags) {
  AddFormatTo(flags);
  flags.Add("no-fusion", "run every layer as steps of its own, not several in one pass over memory",
            &no_fusion);
  AddImagesTo(flags);
}

void NetFlags::AddImagesTo(FlagSet& flags) {
  flags.Add("image", "N", "height and width of the images, or tokens of a sequence",
            Integer(1, 1 << 16, &options.image));
  flags.Add("channels", "N", "channels of the images", Integer(1, 1 << 16, &options.channels));
  flags.Add("classes", "N", "number of classes, or of tokens in the vocabulary",
            Integer(1, kMaxNetNumber, &options.classes));
  flags.Add("growth-rate", "N", "feature maps that each layer of densenet adds",
            Integer(1, kMaxNetNumber, &options.growth_rate));
  flags.Add("dropout", "P", "probability of dropout, for networks with dropout layers",
            Probability(&options.dropout));
  flags.Add(
      "aux-logits",
      "with the auxiliary classifiers of googlenet and inception_v3, which only training runs",
      &options.aux_logits);
}

void NetFlags::AddLossTo(FlagSet& flags) {
  flags.Add("loss", "NAME",
            "what training minimises (mse: mean squared error; bce: binary cross-entropy)",
            OneOf({kCrossEntropy, "mse", "bce"}, &loss));
  flags.Add("label-smoothing", "X",
            "the loss's target is 1 - X for an image's class, and X spread over all classes (0)",
            Probability(&label_smoothing));
}

std::string NetFlags::Arguments() const {
  const NetFlags defaults;
  std::string text;
  const auto add = [&](const char* flag, const auto& value) {
    absl::StrAppend(&text, " --", flag, " ", value);
  };
  if (dtype != defaults.dtype) add("dtype", dtype);
  if (layout != defaults.layout) add("layout", layout);
  if (no_fusion) absl::StrAppend(&text, " --no-fusion");
  if (options.image.has_value()) add("image", *options.image);
  if (options.channels.has_value()) add("channels", *options.channels);
  if (options.classes.has_value()) add("classes", *options.classes);
  if (options.growth_rate.has_value()) add("growth-rate", *options.growth_rate);
  if (options.dropout.has_value()) add("dropout", *options.dropout);
  if (options.aux_logits) absl::StrAppend(&text, " --aux-logits");
  if (loss != defaults.loss) add("loss", loss);
  if (label_smoothing.has_value()) add("label-smoothing", *label_smoothing);
  if (options.depth.has_value()) add("depth", *options.depth);
  if (options.blocks.has_value()) add("blocks", absl::StrJoin(*options.blocks, ","));
  return text;
}

std::vector<std::string> NetFlags::NetworkFlags() const {
  std::vector<std::string> flags;
  const auto add = [&flags](const char* flag, const std::string& value) {
    flags.push_back(absl::StrCat("--", flag));
    flags.push_back(value);
  };
  const auto add_number = [&add](const char* flag, const std::optional<int64_t>& value) {
    if (value.has_value()) add(flag, absl::StrCat(*value));
  };
  add_number("depth", options.depth);
  if (options.blocks.has_value()) add("blocks", absl::StrJoin(*options.blocks, ","));
  add_number("image", options.image);
  add_number("channels", options.channels);
  add_number("classes", options.classes);
  add_number("growth-rate", options.growth_rate);
  if (loss != kCrossEntropy) add("loss", loss);
  if (options.aux_logits) flags.emplace_back("--aux-logits");
  return flags;
}

NamedFile NetFlags::File() const { return {"NET", IsOnnxFile(name) ? name : ""}; }

absl::Status NetFlags::ParseFormat() {
  ASSIGN_OR_RETURN(options.dtype, ParseDType(dtype));
  ASSIGN_OR_RETURN(options.layout, ParseLayout(layout));
  return absl::OkStatus();
}

absl::StatusOr<Graph> NetFlags::Build() {
  ASSIGN_OR_RETURN(Graph built, BuildAsGiven());
  if (loss != kCrossEntropy) {
    if (label_smoothing.has_value())
      return BadUsage(absl::StrCat("--label-smoothing needs --loss cross-entropy, not ", loss));
    // A file is read with its loss, because that decides what the network ends with.
    const bool has_loss = !graph.has_value() && !File().path.empty();
    return has_loss ? built : nets::WithTargetLoss(built, LossFrom(loss));
  }
  if (!label_smoothing.has_value()) return built;
  return nets::WithLabelSmoothing(built, *label_smoothing);
}

absl::StatusOr<Graph> NetFlags::BuildAsGiven() {
  if (graph.has_value()) {
    GraphOptions resized = graph->options();
    resized.batch = options.batch.value_or(resized.batch);
    return WithOptions(*graph, resized);
  }
  RETURN_IF_ERROR(ParseFormat());
  if (!File().path.empty()) {
    ASSIGN_OR_RETURN(nets::OnnxModel model, ReadFile(name, options, loss));
    if (!std::exchange(has_printed_notices, true)) {
      for (const std::string& notice : model.notices)
        absl::FPrintF(stderr, "neap: %s: %s\n", name, notice);
    }
    return no_fusion ? WithoutFusion(model.graph) : std::move(model.graph);
  }
  for (const char* suffix : {".pt", ".pth", ".safetensors"}) {
    if (!absl::EndsWithIgnoreCase(name, suffix)) continue;
    return BadUsage(absl::StrCat(
        name,
        " is a file of PyTorch, and no network; torch.onnx.export() writes networks that are "
        "read, and --weights takes weights alone, as safetensors"));
  }
  absl::StatusOr<Graph> built = nets::Build(name, options);
  if (!built.ok()) return AsBadUsage(built.status());
  return no_fusion ? WithoutFusion(*built) : built;
}

absl::Status NetFlags::TakePlannedBatch(const FlagSet& flags) {
  if (!nets::IsPlansName(name) || flags.Given("batch")) return absl::OkStatus();
  NetFlags planned = *this;
  planned.options.batch.reset();
  ASSIGN_OR_RETURN(const Graph net, planned.Build());
  options.batch = net.options().batch;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<NamedValues>> NetFlags::Weights() {
  if (File().path.empty()) return std::nullopt;
  RETURN_IF_ERROR(ParseFormat());
  ASSIGN_OR_RETURN(nets::OnnxModel model, ReadFile(name, options, loss));
  return std::move(model.weights);
}

absl::Status NetFlags::WeightsMissing() const {
  return BadUsage(absl::StrCat("--weights FILE is missing: ", name,
                               " has no weights until they are trained, for example by neap train ",
                               name, " --weights-out FILE"));
}

absl::Status NetFlags::CheckEngines(const EngineOptions& engines) const {
  if (!engines.half_accumulation || dtype == Name(DType::kFp16)) return absl::OkStatus();
  return BadUsage(absl::StrCat("--half-accumulation needs --dtype fp16, not ", dtype));
}

}  // namespace neap::apps
