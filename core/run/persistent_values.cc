#include "neap/core/run/persistent_values.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "neap/core/base/layout.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/file_form.h"
#include "neap/core/run/initialize.h"
#include "neap/core/run/ranks.h"

namespace neap {
namespace {

// The values in the order in which they lie in memory.
std::vector<float> InMemoryOrder(const std::vector<float>& nchw, const TensorSpec& spec) {
  std::vector<float> values(nchw.size());
  FromNchw(nchw, spec, reinterpret_cast<std::byte*>(values.data()));
  return values;
}

}  // namespace

void PersistentValues::Adopt() {
  const Program& alone = executables_.stored();
  stored_ = {.net = alone.net,
             .options = alone.options,
             .shared = alone.shared,
             .loss_scale = alone.loss_scale};
  for (const Tensor& tensor : alone.tensors) {
    if (IsPersistent(tensor.role)) stored_.tensors.push_back(tensor);
  }
  const Program& program = executables_.whole();
  is_sharded_ = program.options.shard.ranks > 1;
  for (const Tensor& tensor : program.tensors) {
    if (IsPersistent(tensor.role)) own_.emplace(tensor.name, tensor.id);
  }
}

absl::Status PersistentValues::Initialise(uint64_t seed, bool at_once) {
  RETURN_IF_ERROR(WriteInitial(seed, /*random=*/false));
  undrawn_seed_ = seed;
  return at_once ? Draw() : absl::OkStatus();
}

absl::Status PersistentValues::Draw() {
  if (!undrawn_seed_.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(WriteInitial(*undrawn_seed_, /*random=*/true));
  undrawn_seed_.reset();
  return absl::OkStatus();
}

absl::Status PersistentValues::Refresh() {
  return WriteCopies([this](const Tensor& copy) { return IsOfCaller(copy); });
}

absl::Status PersistentValues::BackUpStates() {
  return WriteCopies([](const Tensor& copy) { return copy.role == Role::kState; });
}

absl::Status PersistentValues::WriteCopies(absl::FunctionRef<bool(const Tensor& copy)> is_chosen) {
  for (const Tensor& copy : stored_.tensors) {
    if (!copy.copy_of.has_value() || !is_chosen(copy)) continue;
    std::vector<TensorImage> images(1);
    ASSIGN_OR_RETURN(const std::vector<float> values, Read(stored_.Original(copy)));
    ASSIGN_OR_RETURN(images[0], Image(*Own(copy), copy, values));
    RETURN_IF_ERROR(Write(images));
  }
  return absl::OkStatus();
}

bool PersistentValues::IsOfCaller(const Tensor& stored) const {
  return stored_.Original(stored).home == Home::kExternal;
}

bool PersistentValues::IsRandom(const Tensor& stored) const {
  if (IsOfCaller(stored)) return false;
  const Init::Kind kind = stored_.Original(stored).init.kind;
  return kind == Init::Kind::kNormal || kind == Init::Kind::kUniform;
}

bool PersistentValues::CoverUndrawn(const std::vector<TensorImage>& images) const {
  absl::flat_hash_set<TensorId> written;
  for (const TensorImage& image : images) written.insert(image.tensor);
  return std::all_of(stored_.tensors.begin(), stored_.tensors.end(), [&](const Tensor& tensor) {
    const Tensor* const own = Own(tensor);
    return own == nullptr || !IsRandom(tensor) || written.contains(own->id);
  });
}

absl::Status PersistentValues::WriteInitial(uint64_t seed, bool random) {
  for (const Tensor& tensor : stored_.tensors) {
    const Tensor* const own = Own(tensor);
    const bool is_kept = tensor.home == Home::kExternal && !tensor.copy_of.has_value();
    if (own == nullptr || is_kept || IsRandom(tensor) != random) continue;
    std::vector<TensorImage> images(1);
    ASSIGN_OR_RETURN(const std::vector<float> values, InitialOf(tensor, seed));
    ASSIGN_OR_RETURN(images[0], Image(*own, tensor, values));
    RETURN_IF_ERROR(Write(images));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> PersistentValues::InitialOf(const Tensor& stored,
                                                               uint64_t seed) {
  const Tensor& original = stored_.Original(stored);
  if (IsOfCaller(stored)) return Read(original);
  return InitialValues(original, seed);
}

absl::StatusOr<std::vector<TensorImage>> PersistentValues::Images(
    const LoadedCheckpoint& loaded) const {
  std::vector<TensorImage> images;
  for (const Tensor& tensor : stored_.tensors) {
    const Tensor* const own = tensor.role == Role::kOptimizer ? Own(tensor) : nullptr;
    if (own == nullptr) continue;
    ASSIGN_OR_RETURN(images.emplace_back(), Image(*own, tensor, InitialValues(tensor, 0)));
  }
  for (const auto& [id, values] : loaded.tensors) {
    const Tensor& tensor = stored_.tensor(id);
    const Tensor* const own = Own(tensor);
    if (own == nullptr) continue;
    ASSIGN_OR_RETURN(images.emplace_back(), Image(*own, tensor, values));
  }
  return images;
}

absl::Status PersistentValues::Load(const std::vector<TensorImage>& images) {
  if (!CoverUndrawn(images)) RETURN_IF_ERROR(Draw());
  RETURN_IF_ERROR(Write(images));
  undrawn_seed_.reset();
  return absl::OkStatus();
}

absl::Status PersistentValues::Write(const std::vector<TensorImage>& images) {
  RETURN_IF_ERROR(WriteImages(images, executor(), device_));
  is_stale_ = false;
  return absl::OkStatus();
}

absl::Status PersistentValues::ExchangeAverages() {
  absl::flat_hash_map<TensorId, TensorId> copies;  // of a master: the parameter of 16 bits
  for (const Tensor& tensor : stored_.tensors) {
    if (tensor.copy_of.has_value()) copies.emplace(*tensor.copy_of, tensor.id);
  }
  for (const Tensor& average : stored_.tensors) {
    if (!average.starts_as.has_value() || Own(average) == nullptr) continue;
    const Tensor& param = stored_.tensor(*average.starts_as);
    ASSIGN_OR_RETURN(const std::vector<float> values, Read(param));
    ASSIGN_OR_RETURN(const std::vector<float> averages, Read(average));
    std::vector<TensorImage> images(2);
    ASSIGN_OR_RETURN(images[0], Image(*Own(param), param, averages));
    ASSIGN_OR_RETURN(images[1], Image(*Own(average), average, values));
    if (const auto copy = copies.find(param.id); copy != copies.end()) {
      const Tensor& rounded = stored_.tensor(copy->second);
      ASSIGN_OR_RETURN(images.emplace_back(), Image(*Own(rounded), rounded, averages));
    }
    RETURN_IF_ERROR(Write(images));
  }
  return absl::OkStatus();
}

absl::Status PersistentValues::Gather(const absl::Status& ready) {
  if (!is_sharded_) return ready;
  RETURN_IF_ERROR(Agree(ready, {}, group_));
  // A file that one rank could not load has made those of the others current.
  ASSIGN_OR_RETURN(const std::vector<std::string> stale, group_->Exchange(is_stale_ ? "s" : ""));
  is_stale_ = std::count(stale.begin(), stale.end(), "s") > 0;
  if (!is_stale_) return absl::OkStatus();
  RETURN_IF_ERROR(executor().GatherParameters());
  RETURN_IF_ERROR(device_.Synchronize());
  is_stale_ = false;
  return absl::OkStatus();
}

absl::Status PersistentValues::CheckGathered() const {
  if (!is_stale_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the other ranks' slices of the parameters are those of an earlier step; all ranks have to "
      "call Gather() first");
}

absl::StatusOr<std::vector<float>> PersistentValues::Read(std::string_view name) {
  for (const Tensor& tensor : stored_.tensors) {
    if (tensor.name == name && IsPersistent(tensor.role)) return Read(tensor);
  }
  return absl::NotFoundError(absl::StrFormat("the network has no persistent tensor '%s'", name));
}

absl::StatusOr<std::vector<NamedTensor>> PersistentValues::ReadWeights() {
  std::vector<NamedTensor> weights;
  for (const Tensor& tensor : stored_.tensors) {
    if (!IsSaved(tensor, CheckpointContents::kWeights)) continue;
    ASSIGN_OR_RETURN(std::vector<float> values, Read(tensor));
    weights.push_back({tensor.name, ShapeInFile(tensor), ToFileOrder(std::move(values), tensor)});
  }
  return weights;
}

absl::Status PersistentValues::Save(const std::string& path, CheckpointContents contents,
                                    const TrainingPosition& position, DType weights,
                                    const FileMetadata& metadata) {
  has_failed_ = false;
  const bool writes = !is_sharded_ || group_->rank() == 0;
  const auto read = [this](const Tensor& tensor) { return Read(tensor); };
  const absl::Status saved =
      writes ? SaveCheckpoint(path, stored_, contents, position, read, weights, metadata)
             : ReadAll(contents);
  if (!is_sharded_ || has_failed_) return saved;
  return Agree(saved, {}, group_);
}

absl::Status PersistentValues::ReadAll(CheckpointContents contents) {
  for (const Tensor& tensor : stored_.tensors) {
    const Tensor* const own = Own(tensor);
    const bool is_whole = own != nullptr && !own->held.has_value();
    if (!IsSaved(tensor, contents) || is_whole) continue;
    RETURN_IF_ERROR(Read(tensor).status());
  }
  return absl::OkStatus();
}

const Tensor* PersistentValues::Own(const Tensor& stored) const {
  const auto own = own_.find(stored.name);
  return own == own_.end() ? nullptr : &executables_.whole().tensor(own->second);
}

absl::StatusOr<TensorImage> PersistentValues::Image(const Tensor& own, const Tensor& stored,
                                                    const std::vector<float>& values) const {
  if (!own.held.has_value()) return MakeImage(own, values, device_);
  const std::vector<float> whole = InMemoryOrder(values, stored.spec);
  const auto first = whole.begin() + own.held->first;
  return MakeImage(own, std::vector<float>(first, first + own.held->count), device_);
}

absl::StatusOr<std::vector<float>> PersistentValues::Read(const Tensor& stored) {
  const Tensor* const own = Own(stored);
  const bool is_whole = own != nullptr && !own->held.has_value();
  if (is_whole) return ReadValues(*own, executor(), device_);
  absl::StatusOr<std::vector<float>> values = ReadSharded(stored, own);
  has_failed_ = !values.ok();
  return values;
}

// In rounds, because the ranks may need memory for what they exchange.
absl::StatusOr<std::string> PersistentValues::Concatenated(std::string_view sent) {
  constexpr size_t kRoundBytes = 1 << 20;
  std::vector<std::string> of_ranks(static_cast<size_t>(group_->ranks()));
  bool is_last = false;
  while (!is_last) {
    ASSIGN_OR_RETURN(
        const std::vector<std::string> round,
        group_->Exchange(sent.substr(0, kRoundBytes), Communicator::Patience::kForFiles));
    sent.remove_prefix(std::min(sent.size(), kRoundBytes));
    is_last = true;
    for (size_t rank = 0; rank < round.size(); ++rank) {
      of_ranks[rank] += round[rank];
      is_last = is_last && round[rank].size() < kRoundBytes;
    }
  }
  return absl::StrJoin(of_ranks, "");
}

// Slices follow each other in the order of the ranks.
absl::StatusOr<std::vector<float>> PersistentValues::ReadSharded(const Tensor& stored,
                                                                 const Tensor* own) {
  absl::StatusOr<std::vector<float>> held = std::vector<float>();
  if (own != nullptr) held = ReadValues(*own, executor(), device_);
  RETURN_IF_ERROR(Agree(held.status(), {}, group_));
  const std::string_view sent(reinterpret_cast<const char*>(held->data()),
                              held->size() * sizeof(float));
  ASSIGN_OR_RETURN(const std::string whole, Concatenated(sent));
  if (std::ssize(whole) != stored.spec.size_bytes()) {
    return absl::InternalError(
        absl::StrCat("the ranks have ", whole.size(), " bytes of ", stored.name));
  }
  std::vector<float> values(static_cast<size_t>(stored.spec.elements()));
  ToNchw(reinterpret_cast<const std::byte*>(whole.data()), stored.spec, absl::MakeSpan(values));
  return values;
}

}  // namespace neap
