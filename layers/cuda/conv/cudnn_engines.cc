#include "neap/layers/cuda/conv/cudnn_engines.h"

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace neap {
namespace {

struct NoteLetter {
  char letter;
  bool EngineNotes::*note;
};
constexpr NoteLetter kLetters[] = {{'t', &EngineNotes::tensor_core},
                                   {'w', &EngineNotes::winograd},
                                   {'f', &EngineNotes::fft},
                                   {'r', &EngineNotes::reduced_precision_reduction},
                                   {'n', &EngineNotes::nondeterministic},
                                   {'d', &EngineNotes::down_converts_inputs},
                                   {'c', &EngineNotes::is_compiled}};

std::string Letters(const EngineNotes& notes) {
  std::string letters;
  for (const auto& [letter, note] : kLetters) {
    if (notes.*note) letters += letter;
  }
  return letters.empty() ? "-" : letters;
}

std::optional<EngineNotes> NotesOf(std::string_view letters) {
  EngineNotes notes;
  for (const auto& [letter, note] : kLetters)
    notes.*note = letters.find(letter) != std::string_view::npos;
  return Letters(notes) == letters ? std::optional(notes) : std::nullopt;
}

}  // namespace

absl::StatusOr<EngineChoice> ParseEngineId(std::string_view id) {
  const absl::Status bad =
      absl::NotFoundError(absl::StrCat("'", std::string(id), "' is not a cuDNN engine"));
  std::vector<absl::string_view> parts =
      absl::StrSplit(absl::string_view(id.data(), id.size()), '_');
  EngineChoice choice;
  if (!absl::ConsumePrefix(&parts[0], "eng") || !absl::SimpleAtoi(parts[0], &choice.engine))
    return bad;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> knob = absl::StrSplit(parts[i], '=');
    absl::string_view name = knob.first;
    int type = 0;
    int64_t value = 0;
    if (!absl::ConsumePrefix(&name, "k") || !absl::SimpleAtoi(name, &type) ||
        !absl::SimpleAtoi(knob.second, &value)) {
      return bad;
    }
    choice.knobs.emplace_back(type, value);
  }
  return choice;
}

std::string ListText(const std::vector<HeuristicEngine>& engines) {
  std::string text;
  for (const HeuristicEngine& engine : engines)
    absl::StrAppend(&text, engine.id, " ", engine.workspace_bytes, " ", Letters(engine.notes),
                    "\n");
  return text;
}

std::optional<std::vector<HeuristicEngine>> ParseListText(std::string_view text) {
  std::vector<HeuristicEngine> engines;
  const std::string_view all = text;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::vector<std::string> words = absl::StrSplit(absl::string_view(text.data(), end), ' ');
    text.remove_prefix(end + 1);
    HeuristicEngine engine;
    if (words.size() != 3 || !ParseEngineId(words[0]).ok() ||
        !absl::SimpleAtoi(words[1], &engine.workspace_bytes) || engine.workspace_bytes < 0) {
      return std::nullopt;
    }
    const std::optional<EngineNotes> notes = NotesOf(words[2]);
    if (!notes.has_value()) return std::nullopt;
    engine.id = words[0];
    engine.notes = *notes;
    engines.push_back(std::move(engine));
  }
  if (ListText(engines) != all) return std::nullopt;
  return engines;
}

std::string KindOfGpu(const std::string& properties_json) {
  nlohmann::json properties = nlohmann::json::parse(properties_json, nullptr, false);
  if (!properties.is_object()) return "";
  for (const char* const of_one : {"pciDeviceId", "cudaDeviceId"}) properties.erase(of_one);
  return properties.dump();
}

std::optional<std::vector<HeuristicEngine>> LibraryLists::Find(std::string_view problem) const {
  if (lists == nullptr) return std::nullopt;
  const std::optional<std::string> text = lists->Find(library, problem);
  return text.has_value() ? ParseListText(*text) : std::nullopt;
}

void LibraryLists::Keep(std::string_view problem,
                        const std::vector<HeuristicEngine>& engines) const {
  if (lists != nullptr) lists->Keep(library, problem, ListText(engines));
}

absl::Status CheckTrusted(const ConvolutionProblem& problem, size_t version) {
  for (const TensorSpec& tensor : {problem.x, problem.weight, problem.y}) {
    if (problem.axes() != kMaxSpatialAxes || tensor.elements() < int64_t{1} << 31) continue;
    return absl::UnimplementedError(absl::StrCat(
        "cuDNN's convolutions of volumes are not used for tensors of 2^31 elements and more, such "
        "as ",
        tensor.ToString(), ", for ", problem.ToString()));
  }
  if (!IsTooOld(version, problem.axes())) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("cuDNN ", version / 10000, ".", version / 100 % 100, ".", version % 100,
                   " computes some convolutions of volumes wrongly; 9.15 or newer is needed for ",
                   problem.ToString()));
}

std::vector<Engine> Offered(const std::vector<HeuristicEngine>& engines,
                            const ConvolutionProblem& problem) {
  std::vector<Engine> offered;
  for (const auto& [id, workspace_bytes, notes] : engines) {
    if (!IsAllowed(notes, problem) || !IsTrusted(id, problem)) continue;
    offered.push_back({.id = id,
                       .workspace_bytes = workspace_bytes,
                       .deterministic = !notes.nondeterministic,
                       .notes = TextOf(notes),
                       .uses_tensor_cores = notes.tensor_core});
  }
  return offered;
}

bool IsAllowed(const EngineNotes& notes, const ConvolutionProblem& problem) {
  if (notes.down_converts_inputs || (problem.relu && notes.is_compiled)) return false;
  const DType dtype = problem.x.dtype;
  if (Is16Bit(dtype)) return problem.half_accumulation || !notes.reduced_precision_reduction;
  if (problem.axes() == 3 && notes.reduced_precision_reduction) return false;
  return dtype == DType::kTf32 || !notes.tensor_core;
}

bool IsTrusted(std::string_view id, const ConvolutionProblem& problem) {
  if (problem.phase != Phase::kBackwardParams) return true;
  const bool has_groups = problem.weight.shape.c() != problem.x.shape.c();
  const bool is_depthwise = has_groups && problem.weight.shape.c() == 1;
  const std::string_view engine = id.substr(0, id.find('_'));
  if (engine == "eng70" || (engine == "eng23" && has_groups)) return false;
  return !(is_depthwise && (engine == "eng17" || engine == "eng61"));
}

std::string TextOf(const EngineNotes& notes) {
  std::vector<std::string> texts;
  if (notes.tensor_core) texts.emplace_back("tensor-core");
  if (notes.winograd) texts.emplace_back("winograd");
  if (notes.fft) texts.emplace_back("fft");
  if (notes.reduced_precision_reduction) texts.emplace_back("reduced-precision-reduction");
  if (notes.nondeterministic) texts.emplace_back("nondeterministic");
  return absl::StrJoin(texts, " ");
}

}  // namespace neap
