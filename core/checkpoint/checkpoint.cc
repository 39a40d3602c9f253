#include "neap/core/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/file_form.h"
#include "neap/core/checkpoint/safetensors.h"

namespace neap {
namespace {

constexpr const char* kStepKey = "neap.step";
constexpr const char* kSeedKey = "neap.seed";
constexpr const char* kLearningRateKey = "neap.learning_rate";
constexpr const char* kRunningMean = ".running_mean";
constexpr const char* kBatchesTracked = ".num_batches_tracked";
constexpr const char* kLossScaleName = "loss_scale";

absl::Status CheckWeightType(DType weights) {
  if (NameInFile(weights).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("weights are written as fp32, fp16 or bf16, not ", std::string(Name(weights))));
}

absl::Status CheckEntry(const std::string& path, const Tensor& tensor,
                        const SafetensorsEntry& entry) {
  const bool is_float = TypeInFile(entry.dtype).has_value();
  if (is_float && HaveSameExtents(entry.shape, ExtentsInFile(tensor))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": tensor '", tensor.name, "' is ", entry.dtype, " ", absl::StrJoin(entry.shape, "x"),
      ", but the network has F32 ", ShapeInFile(tensor).ToString()));
}

bool IsOfOptimizer(const std::string& name) {
  constexpr const char* kSuffixes[] = {".momentum", ".exp_avg", ".exp_avg_sq", ".average"};
  return std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                     [&](const char* suffix) { return absl::EndsWith(name, suffix); });
}

// A parameter that layers share has the same bits under each of its names.
absl::Status CheckSame(const std::string& where, const SharedParam& names,
                       const std::vector<float>& values, const std::vector<float>& of_owner) {
  if (values.size() == of_owner.size() &&
      std::memcmp(values.data(), of_owner.data(), values.size() * sizeof(float)) == 0)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, "tensors '", names.param, "' and '", names.owner,
                   "' have other values, but are one parameter of the network"));
}

// Checks that the network has every tensor of the file: an unknown name means that the file belongs
// to another network.
absl::Status CheckNothingElse(const std::string& path, const Program& program,
                              const SafetensorsReader& reader) {
  absl::flat_hash_set<std::string> known;
  for (const Tensor& tensor : program.tensors) known.insert(tensor.name);
  for (const SharedParam& shared : program.shared) known.insert(shared.param);
  absl::flat_hash_set<std::string> found;
  for (const SafetensorsEntry& entry : reader.entries()) {
    const std::string name(OwnName(program, entry.name));
    if (!found.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor '", name, "' is there with a prefix, too"));
    }
    if (known.contains(name) || absl::EndsWith(entry.name, kBatchesTracked)) continue;
    if (IsIgnored(program, name)) continue;
    // The tensor is of a run with another optimizer or type.
    if (IsOfOptimizer(entry.name) || entry.name == kLossScaleName) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": tensor '", entry.name, "' does not belong to this network"));
  }
  return absl::OkStatus();
}

bool IsCount(float value, float largest) {
  return value >= 0 && value <= largest && std::floor(value) == value;
}

// Whether training that begins with LossScale{} can get there, between two steps.
bool IsReachable(const LossScale& state) {
  constexpr float kLastCount = 16777216;  // floats count no further
  int exponent = 0;
  return state.scale >= LossScale::kMin && state.scale <= LossScale::kMax &&
         std::frexp(state.scale, &exponent) == 0.5F &&
         IsCount(state.good_steps, LossScale::kGrowthInterval - 1) && state.overflow == 0 &&
         IsCount(state.skipped, kLastCount);
}

absl::Status CheckLossScale(const std::string& path, const std::vector<float>& values) {
  if (IsReachable(LossScaleFrom(values))) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": tensor '", kLossScaleName, "' is ", absl::StrJoin(values, ", "),
                   " (scale, good steps, overflow, skipped steps), which training cannot reach"));
}

absl::StatusOr<std::optional<TrainingPosition>> Position(const std::string& path,
                                                         const SafetensorsMetadata& metadata) {
  const auto step = metadata.find(kStepKey);
  const auto seed = metadata.find(kSeedKey);
  if (step == metadata.end() || seed == metadata.end()) return std::nullopt;
  TrainingPosition position;
  if (!absl::SimpleAtoi(step->second, &position.step) || position.step < 0 ||
      !absl::SimpleAtoi(seed->second, &position.seed)) {
    return absl::DataLossError(
        absl::StrCat(path, ": the step or the seed in the metadata is not a number from 0"));
  }
  const auto rate = metadata.find(kLearningRateKey);
  if (rate != metadata.end()) position.learning_rate = rate->second;
  return position;
}

// The tensors of a file, and PyTorch's counts of batches.
std::vector<SafetensorsEntry> EntriesToSave(const Program& program, CheckpointContents contents,
                                            DType weights) {
  std::vector<SafetensorsEntry> entries;
  for (const Tensor& tensor : program.tensors) {
    if (!IsSaved(tensor, contents)) continue;
    entries.push_back({.name = tensor.name,
                       .dtype = std::string(*NameInFile(FileType(tensor, weights))),
                       .shape = ExtentsInFile(tensor)});
    if (!absl::EndsWith(tensor.name, kRunningMean)) continue;
    const std::string layer = tensor.name.substr(0, tensor.name.size() - std::strlen(kRunningMean));
    entries.push_back({.name = absl::StrCat(layer, kBatchesTracked), .dtype = "I64", .shape = {}});
  }
  return entries;
}

absl::StatusOr<std::vector<float>> ReadTensor(const std::string& path, const Tensor& tensor,
                                              const SafetensorsReader& reader,
                                              const SafetensorsEntry& entry) {
  ASSIGN_OR_RETURN(std::vector<float> values, ReadValues(tensor, reader, entry));
  if (tensor.name == kLossScaleName) RETURN_IF_ERROR(CheckLossScale(path, values));
  return values;
}

using EntryToLoad = std::pair<const Tensor*, SafetensorsEntry>;

// The entries to load from a file of weights, or from a whole checkpoint.
absl::StatusOr<std::vector<EntryToLoad>> EntriesToLoad(const std::string& path,
                                                       const Program& program,
                                                       const SafetensorsReader& reader,
                                                       bool is_whole) {
  RETURN_IF_ERROR(CheckNothingElse(path, program, reader));
  std::vector<EntryToLoad> entries;
  for (const Tensor& tensor : program.tensors) {
    if (!IsSaved(tensor, is_whole ? CheckpointContents::kEverything : CheckpointContents::kWeights))
      continue;
    const absl::StatusOr<SafetensorsEntry> entry = FindEntry(program, reader, tensor.name);
    const bool may_lack = tensor.name == kLossScaleName || tensor.starts_as.has_value();
    if (!entry.ok() && may_lack) continue;
    if (!entry.ok()) {
      const bool is_of_optimizer = tensor.role == Role::kOptimizer;
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": tensor '", tensor.name, "' is missing",
          is_of_optimizer ? "; the file is of a training with another optimizer" : ""));
    }
    RETURN_IF_ERROR(CheckEntry(path, tensor, *entry));
    entries.emplace_back(&tensor, *entry);
  }
  return entries;
}

// A shared parameter's names, and its owner's tensor with the entry under the other name.
using SharedEntry = std::pair<SharedParam, EntryToLoad>;

// Another layer may have another shape for the same values, such as {O, C} and {O, C, 1, 1}.
absl::StatusOr<std::vector<SharedEntry>> SharedEntries(const std::string& path,
                                                       const Program& program,
                                                       const SafetensorsReader& reader) {
  absl::flat_hash_map<std::string_view, const Tensor*> weights;
  for (const Tensor& tensor : program.tensors) {
    if (IsSaved(tensor, CheckpointContents::kWeights)) weights.emplace(tensor.name, &tensor);
  }
  std::vector<SharedEntry> entries;
  for (const SharedParam& names : program.shared) {
    const absl::StatusOr<SafetensorsEntry> entry = FindEntry(program, reader, names.param);
    const auto found = weights.find(names.owner);
    if (!entry.ok() || found == weights.end()) continue;
    const Tensor* const owner = found->second;
    const bool fits =
        TypeInFile(entry->dtype).has_value() &&
        entry->size_bytes == owner->spec.elements() * SafetensorsElementBytes(entry->dtype);
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor '", names.param, "' is ", entry->dtype, " ",
                       absl::StrJoin(entry->shape, "x"), ", but the network shares it with '",
                       names.owner, "', F32 ", ShapeInFile(*owner).ToString()));
    }
    entries.push_back({names, {owner, *entry}});
  }
  return entries;
}

// Appends the tensors that are copies of loaded ones, and those that begin with their values and
// were not loaded themselves.
void AppendCopies(const Program& program, LoadedCheckpoint& loaded) {
  absl::flat_hash_map<TensorId, size_t> position;
  for (size_t i = 0; i < loaded.tensors.size(); ++i) position[loaded.tensors[i].first] = i;
  for (const Tensor& tensor : program.tensors) {
    const Tensor& original = program.Original(tensor);
    if (position.contains(tensor.id) || !position.contains(original.id)) continue;
    std::vector<float> values = loaded.tensors[position[original.id]].second;
    loaded.tensors.emplace_back(tensor.id, std::move(values));
  }
}

// Whether a file of weights has the tensor, whatever the type of the network.
bool IsWeight(const Tensor& tensor) {
  return IsSaved(tensor, CheckpointContents::kWeights) && tensor.name != kLossScaleName;
}

absl::Status CheckNothingElse(const NamedValues& weights, const Program& program) {
  absl::flat_hash_set<std::string> known;
  for (const Tensor& tensor : program.tensors) {
    if (IsWeight(tensor)) known.insert(tensor.name);
  }
  for (const SharedParam& shared : program.shared) known.insert(shared.param);
  for (const auto& [name, values] : weights) {
    if (known.contains(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' does not belong to this network"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsSaved(const Tensor& tensor, CheckpointContents contents) {
  if (!IsPersistent(tensor.role) || !tensor.in_checkpoint) return false;
  return contents == CheckpointContents::kEverything || tensor.role != Role::kOptimizer;
}

LossScale LossScaleFrom(const std::vector<float>& values) {
  return {.scale = values[0], .good_steps = values[1], .overflow = values[2], .skipped = values[3]};
}

absl::Status SaveCheckpoint(
    const std::string& path, const Program& program, CheckpointContents contents,
    const TrainingPosition& position,
    const std::function<absl::StatusOr<std::vector<float>>(const Tensor&)>& read, DType weights,
    const FileMetadata& metadata) {
  RETURN_IF_ERROR(CheckWeightType(weights));
  const std::vector<SafetensorsEntry> entries = EntriesToSave(program, contents, weights);
  SafetensorsMetadata written = metadata;
  written["format"] = "pt";
  if (contents == CheckpointContents::kEverything) {
    written[kStepKey] = absl::StrCat(position.step);
    written[kSeedKey] = absl::StrCat(position.seed);
    if (!position.learning_rate.empty()) written[kLearningRateKey] = position.learning_rate;
  }
  ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(path, entries, written));
  for (const SafetensorsEntry& entry : entries) {
    if (entry.dtype != "I64") continue;
    RETURN_IF_ERROR(writer.Append(
        entry.name, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&position.step),
                                        sizeof(position.step))));
  }
  for (const Tensor& tensor : program.tensors) {
    if (!IsSaved(tensor, contents)) continue;
    ASSIGN_OR_RETURN(std::vector<float> values, read(tensor));
    ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                     BytesInFile(tensor, std::move(values), FileType(tensor, weights)));
    RETURN_IF_ERROR(writer.Append(tensor.name, bytes));
  }
  return writer.Commit();
}

absl::StatusOr<std::optional<TrainingPosition>> ReadTrainingPosition(const std::string& path) {
  ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  return Position(path, reader.metadata());
}

absl::Status CheckCheckpoint(const std::string& path, const Program& program) {
  ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  ASSIGN_OR_RETURN(const auto position, Position(path, reader.metadata()));
  RETURN_IF_ERROR(EntriesToLoad(path, program, reader, position.has_value()).status());
  return SharedEntries(path, program, reader).status();
}

absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& path, const Program& program) {
  ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(path));
  LoadedCheckpoint loaded;
  ASSIGN_OR_RETURN(loaded.position, Position(path, reader.metadata()));
  ASSIGN_OR_RETURN(const std::vector<EntryToLoad> entries,
                   EntriesToLoad(path, program, reader, loaded.position.has_value()));
  ASSIGN_OR_RETURN(const std::vector<SharedEntry> shared, SharedEntries(path, program, reader));
  RETURN_IF_ERROR(reader.CheckData());
  for (const auto& [tensor, entry] : entries) {
    ASSIGN_OR_RETURN(std::vector<float> values, ReadTensor(path, *tensor, reader, entry));
    loaded.tensors.emplace_back(tensor->id, std::move(values));
  }
  absl::flat_hash_map<const Tensor*, const std::vector<float>*> owners;
  for (size_t i = 0; i < entries.size() && !shared.empty(); ++i)
    owners[entries[i].first] = &loaded.tensors[i].second;
  for (const auto& [names, to_load] : shared) {
    const auto& [owner, entry] = to_load;
    ASSIGN_OR_RETURN(const std::vector<float> values, ReadTensor(path, *owner, reader, entry));
    const auto of_owner = owners.find(owner);
    if (of_owner == owners.end()) continue;
    RETURN_IF_ERROR(CheckSame(absl::StrCat(path, ": "), names, values, *of_owner->second));
  }
  AppendCopies(program, loaded);
  return loaded;
}

absl::StatusOr<NamedValues> ReadWeights(const std::string& path, const Program& program) {
  ASSIGN_OR_RETURN(LoadedCheckpoint loaded, LoadCheckpoint(path, program));
  NamedValues weights;
  for (auto& [id, values] : loaded.tensors) {
    const Tensor& tensor = program.tensor(id);
    if (IsWeight(tensor)) weights[tensor.name] = ToFileOrder(std::move(values), tensor);
  }
  return weights;
}

absl::StatusOr<LoadedCheckpoint> CheckpointOf(const NamedValues& weights, const Program& program) {
  RETURN_IF_ERROR(CheckNothingElse(weights, program));
  LoadedCheckpoint loaded;
  for (const Tensor& tensor : program.tensors) {
    if (!IsWeight(tensor)) continue;
    const auto values = weights.find(tensor.name);
    if (values == weights.end())
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' is missing"));
    if (static_cast<int64_t>(values->second.size()) != tensor.spec.elements()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", tensor.name, "' has ", values->second.size(),
                       " values, but the network has ", ShapeInFile(tensor).ToString()));
    }
    loaded.tensors.emplace_back(tensor.id, FromFileOrder(values->second, tensor));
  }
  for (const SharedParam& shared : program.shared) {
    const auto values = weights.find(shared.param), of_owner = weights.find(shared.owner);
    if (values == weights.end() || of_owner == weights.end()) continue;
    RETURN_IF_ERROR(CheckSame("", shared, values->second, of_owner->second));
  }
  AppendCopies(program, loaded);
  return loaded;
}

}  // namespace neap
