// Checkpoints: the persistent state of a session as one safetensors file, written atomically.
//
// Parameters and running statistics have torchvision's names, so weights can be exchanged with
// PyTorch. "NAME.momentum" of SGD, "NAME.exp_avg" and "NAME.exp_avg_sq" of AdamW, and
// "NAME.average" are the optimizer's state, "loss_scale" is that of fp16 training
// (core/step/loss_scale.h); "NAME.num_batches_tracked" exists because PyTorch requires it. The
// values lie in N, C, H, W order, whatever the network's layout. Where a network's weights have the
// names, the shapes or the order of another program (core/checkpoint/file_form.h), the momentum and
// so on do as well. The metadata hold "neap.step",
// "neap.seed" and, if one was set while training went on, "neap.learning_rate", and what the writer
// adds, for example of the network (core/checkpoint/model_description.h).
//
//                                     parameters         all else, but num_batches_tracked
//   written: a checkpoint             F32                F32
//   written: weights                  F32, F16 or BF16   F32
//   read, of either                   F32, F16 or BF16   F32, F16 or BF16
//
// A parameter whose kernels read 16 bits is written as its fp32 master. One that layers share is
// written under its owner's name alone; what is read may also have its other names
// (Program::shared), with the same values.
//
// Loading is all or nothing: every name and shape and, if the file has one, the checksum of the
// bytes is checked, and every byte read, before anything is returned. *Errors*: INVALID_ARGUMENT
// for a tensor that is missing, unexpected or of another shape, or not of a floating-point type,
// and for two names of one parameter with other values; DATA_LOSS for a corrupt file, naming the
// offset, and for a loss scale that training cannot reach; NOT_FOUND.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/program/program.h"
#include "neap/core/step/loss_scale.h"

namespace neap {

struct TrainingPosition {
  int64_t step = 0;
  uint64_t seed = 0;
  // The rate that was set while training went on, as the session writes it; empty if none was.
  std::string learning_rate = {};
};

enum class CheckpointContents : uint8_t { kEverything, kWeights };

// Texts by name, in UTF-8.
using FileMetadata = std::map<std::string, std::string>;

bool IsSaved(const Tensor& tensor, CheckpointContents contents);

// `read` returns a persistent tensor's values in N, C, H, W order. `weights` is the type of
// parameters in a file of weights; running statistics stay F32. Errors: INVALID_ARGUMENT unless it
// is fp32, fp16 or bf16, or, naming the tensor, for a finite value that would become infinite in
// it; and for metadata that are not UTF-8. After an error, a file that was at `path` before is
// still there.
absl::Status SaveCheckpoint(
    const std::string& path, const Program& program, CheckpointContents contents,
    const TrainingPosition& position,
    const std::function<absl::StatusOr<std::vector<float>>(const Tensor&)>& read,
    DType weights = DType::kFp32, const FileMetadata& metadata = {});

// The state that the tensor "loss_scale" has as its values.
LossScale LossScaleFrom(const std::vector<float>& values);

struct LoadedCheckpoint {
  // Values in N, C, H, W order, also of tensors that are copies of others, or begin with their
  // values (Program::Original()).
  std::vector<std::pair<TensorId, std::vector<float>>> tensors;
  std::optional<TrainingPosition> position;  // nullopt for a file of weights
};
// The position in a checkpoint's metadata, without reading its tensors; nullopt for a file of
// weights. Errors: DATA_LOSS, NOT_FOUND.
absl::StatusOr<std::optional<TrainingPosition>> ReadTrainingPosition(const std::string& path);

// Whether LoadCheckpoint() will find every tensor, and with the right shape, without reading any.
// Errors: those of LoadCheckpoint().
absl::Status CheckCheckpoint(const std::string& path, const Program& program);

// A file without a position is read as weights. A file with a position must also have the
// optimizer's tensors, except for a loss scale, which a file of another type does not have, and for
// averages, which then begin with the parameters.
absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& path, const Program& program);

// Weights in memory: the values of a network's parameters and running statistics in the order in
// which they lie in a file of weights, N, C, H, W unless the network says otherwise
// (Graph::StoreAs()), by the names that they have there.
//
//   ASSIGN_OR_RETURN(NamedValues weights, ReadWeights("weights.safetensors", program));
//   weights["fc.bias"].assign(10, 0.0F);
//   RETURN_IF_ERROR(session.LoadWeights(weights));
using NamedValues = std::map<std::string, std::vector<float>, std::less<>>;

// The weights in a file of either kind. Errors: those of LoadCheckpoint().
absl::StatusOr<NamedValues> ReadWeights(const std::string& path, const Program& program);
// The result of loading a file with these weights. Errors: INVALID_ARGUMENT naming a tensor that is
// missing, does not belong to the network, or has another number of values, and both names of a
// shared parameter that has other values under one of them.
absl::StatusOr<LoadedCheckpoint> CheckpointOf(const NamedValues& weights, const Program& program);

}  // namespace neap
