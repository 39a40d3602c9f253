// neap predict: prints what trained weights predict for each image of a dataset.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/inference/inference.h"
#include "apps/train/evaluation.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/loader.h"
#include "neap/nets/registry.h"

namespace neap::apps {
namespace {

struct PredictFlags {
  InferenceFlags inference;
  std::string out;  // empty: the standard output
  int64_t top = 1;
  std::optional<int64_t> images = {};
};

struct ClassProbability {
  int64_t label = 0;
  float probability = 0;
};

// The `top` most probable classes of one image or pixel, most probable first. `apart` is the
// distance between the elements of two classes. All probabilities are finite.
std::vector<ClassProbability> Ranked(const float* probabilities, int64_t classes, int64_t apart,
                                     int64_t top) {
  std::vector<ClassProbability> ranked;
  for (int64_t c = 0; c < classes; ++c) ranked.push_back({c, probabilities[c * apart]});
  const int64_t kept = std::min(top, classes);
  std::partial_sort(ranked.begin(), ranked.begin() + kept, ranked.end(),
                    [](const ClassProbability& a, const ClassProbability& b) {
                      return a.probability > b.probability ||
                             (a.probability == b.probability && a.label < b.label);
                    });
  ranked.resize(static_cast<size_t>(kept));
  return ranked;
}

// Formats the lines of a table, or of JSON objects. Classes are given by their names where these
// are known, and images by their files.
class Lines {
 public:
  Lines(bool json, int64_t top, const Inference& inference)
      : json_(json),
        pixels_(inference.input.labels > 1),
        top_(top),
        dataset_(*inference.dataset),
        labels_(dataset_.class_names()),
        classes_(inference.classes) {}

  std::string Header() const {
    if (json_) return "";
    if (pixels_) return "image,classes\n";
    std::string header = "image,label";
    for (int64_t k = 1; k <= top_; ++k) absl::StrAppend(&header, ",class", k, ",probability", k);
    return header + "\n";
  }

  // Image `index` of the dataset; `i` in the prediction.
  std::string Image(int64_t index, const Batch& batch, const Prediction& prediction,
                    int64_t i) const {
    const int64_t pixels = prediction.shape.positions();
    const int64_t classes = prediction.shape.c();
    const float* const first = &prediction.probabilities[static_cast<size_t>(i * classes * pixels)];
    if (pixels_) return Pixels(index, first, classes, pixels);
    const std::vector<ClassProbability> ranked = Ranked(first, classes, 1, top_);
    return json_ ? ImageJson(index, batch.labels[static_cast<size_t>(i)], ranked)
                 : ImageCsv(index, batch.labels[static_cast<size_t>(i)], ranked);
  }

 private:
  // "" if the class has no name.
  static std::string NameOf(int64_t number, const std::vector<std::string>& names) {
    return number < std::ssize(names) ? names[static_cast<size_t>(number)] : "";
  }
  static std::string Field(int64_t number, const std::vector<std::string>& names) {
    if (number < 0) return "";
    const std::string name = NameOf(number, names);
    return name.empty() ? absl::StrCat(number) : CsvField(name);
  }
  std::string ImageCsv(int64_t index, int32_t label,
                       const std::vector<ClassProbability>& ranked) const {
    const std::string file = dataset_.file(index);
    std::string line = absl::StrCat(file.empty() ? absl::StrCat(index) : CsvField(file), ",",
                                    Field(label, labels_));
    for (const ClassProbability& at : ranked)
      absl::StrAppendFormat(&line, ",%s,%.6g", Field(at.label, classes_), at.probability);
    return line + "\n";
  }
  std::string ImageJson(int64_t index, int32_t label,
                        const std::vector<ClassProbability>& ranked) const {
    Json json = {{"image", index}};
    if (const std::string file = dataset_.file(index); !file.empty()) json["file"] = file;
    json["label"] = label < 0 ? Json() : Json(NumberOf(label));
    if (label >= 0 && !labels_.empty()) json["label_name"] = NameOf(label, labels_);
    Json& classes = json["classes"] = Json::array();
    for (const ClassProbability& at : ranked) {
      Json& one = classes.emplace_back(Json{{"class", at.label}});
      if (!classes_.empty()) one["name"] = NameOf(at.label, classes_);
      one["probability"] = at.probability;
    }
    return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  // The number of the network's class with the label's name; null if there is none.
  Json NumberOf(int32_t label) const {
    if (labels_.empty() || classes_.empty()) return label;
    const auto found =
        std::find(classes_.begin(), classes_.end(), labels_[static_cast<size_t>(label)]);
    return found == classes_.end() ? Json() : Json(found - classes_.begin());
  }
  // The most probable class of each pixel, row by row.
  std::string Pixels(int64_t index, const float* first, int64_t classes, int64_t pixels) const {
    std::vector<int64_t> map;
    for (int64_t p = 0; p < pixels; ++p)
      map.push_back(Ranked(first + p, classes, pixels, 1).front().label);
    if (json_) return Json{{"image", index}, {"classes", map}}.dump() + "\n";
    std::string line = absl::StrCat(index, ",");
    for (int64_t p = 0; p < pixels; ++p)
      absl::StrAppend(&line, p == 0 ? "" : " ", map[static_cast<size_t>(p)]);
    return line + "\n";
  }

  bool json_, pixels_;
  int64_t top_;
  const Dataset& dataset_;
  std::vector<std::string> labels_;   // names, of the dataset's classes
  std::vector<std::string> classes_;  // and of the network's
};

// NET is the first argument without a flag, unless that is an image: a file or a folder, and no
// network's name.
void DivideArguments(std::vector<std::string> arguments, InferenceFlags& flags) {
  const auto is_net = [](const std::string& text) {
    const std::vector<nets::Network> nets = nets::Networks();
    return IsOnnxFile(text) || !std::filesystem::exists(text) ||
           std::any_of(nets.begin(), nets.end(),
                       [&](const nets::Network& net) { return net.name == text; });
  };
  if (!arguments.empty() && is_net(arguments.front())) {
    flags.net.name = arguments.front();
    arguments.erase(arguments.begin());
  }
  flags.images = std::move(arguments);
}

// Whether another image has taken the place of this one.
bool IsBad(const Inference& inference, int64_t index) {
  return inference.bad_files != nullptr && inference.bad_files->Has(inference.dataset->file(index));
}

// Prints line by line, or collects the text for the file. False if it was interrupted.
absl::StatusOr<bool> PredictAll(const PredictFlags& flags, Inference& inference, const Lines& lines,
                                std::string& text) {
  const auto emit = [&](const std::string& line) {
    if (flags.out.empty()) {
      Print(line);
    } else {
      text += line;
    }
  };
  const int64_t count =
      std::min(flags.images.value_or(inference.dataset->size()), inference.dataset->size());
  emit(lines.Header());
  ASSIGN_OR_RETURN(const std::unique_ptr<Loader> loader,
                   Loader::InOrder(*inference.dataset, {.count = count}, inference.input.batch,
                                   flags.inference.reading.workers));
  Batch batch;
  for (int64_t first = 0; first < count; first += inference.input.batch) {
    if (Interrupted()) return false;
    ASSIGN_OR_RETURN(batch, loader->Next(std::move(batch)));
    ASSIGN_OR_RETURN(const Prediction prediction, inference.session.Predict(batch.images));
    RETURN_IF_ERROR(CheckFinite(prediction, first));
    for (int64_t i = 0; i < batch.size; ++i) {
      if (IsBad(inference, first + i)) continue;
      emit(lines.Image(first + i, batch, prediction, i));
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<int> RunPredict(const std::vector<std::string>& args) {
  PredictFlags given;
  FlagSet flags(
      "neap predict [NET] [IMAGE...] [--weights FILE] [flags]",
      "Runs a trained network on images and prints each one's label and most probable classes as "
      "CSV, or with\n--json as one JSON object per line; for networks that label pixels, the class "
      "of each pixel, row by\nrow. IMAGE is a JPEG or PNG file, or a folder of them; without it, "
      "the images are those of --data.");
  std::vector<std::string> arguments;
  flags.OptionalPositional("NET", kOptionalNetHelp, &arguments);
  given.inference.AddTo(flags);
  flags.Add("top", "K",
            "classes per image, the most probable first; not for networks that label pixels",
            Integer(1, 1 << 20, &given.top));
  flags.Add("images", "N", "the first N images of the split (all)",
            Integer(1, int64_t{1} << 40, &given.images));
  flags.Add("out", "FILE", "write to a file instead of the standard output", Text(&given.out));
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  DivideArguments(std::move(arguments), given.inference);
  if (!given.inference.images.empty() && flags.Given("data"))
    return BadUsage("--data and images as arguments exclude each other");
  RETURN_IF_ERROR(CheckOutputs({{"--out", given.out}}, {given.inference.net.File(),
                                                        {"--weights", given.inference.weights}}));
  ASSIGN_OR_RETURN(Inference inference, OpenInference(given.inference, flags));
  if (inference.input.reads_tokens) {
    return BadUsage(
        absl::StrCat(given.inference.net.name,
                     " reads tokens, for which there is neap eval, but no neap predict"));
  }
  const bool labels_pixels = inference.input.labels > 1;
  if (labels_pixels && flags.Given("top")) {
    return BadUsage(absl::StrCat("--top is not for ", given.inference.net.name,
                                 ", which labels pixels: one class is printed for each"));
  }
  WatchForInterrupt();
  const int64_t top = std::min(given.top, inference.input.classes);
  const Lines lines(given.inference.json, top, inference);
  std::string text;
  ASSIGN_OR_RETURN(const bool complete, PredictAll(given, inference, lines, text));
  if (!complete) return InterruptedExitCode();
  if (!given.out.empty()) RETURN_IF_ERROR(WriteTextFile(given.out, text));
  ASSIGN_OR_RETURN(const std::vector<std::string> skipped, inference.Skipped());
  for (const std::string& note : inference.notes) absl::FPrintF(stderr, "neap: %s\n", note);
  if (!skipped.empty())  // apart from the predictions
    absl::FPrintF(stderr, "neap: %s", BadFilesText(skipped, std::ssize(skipped)));
  return 0;
}

}  // namespace neap::apps
