// The values of a session's persistent tensors as checkpoints have them: whole, though a rank of a
// sharded optimizer (core/program/shards.h) keeps only slices of masters and moments, and between
// two steps has the current values of only its own slices of parameters. Private to the session.
//
//   PersistentValues values(device, executables, communicator);
//   values.Adopt();
//   RETURN_IF_ERROR(values.Initialise(seed, /*at_once=*/true));
//   values.StepBegun();
//   RETURN_IF_ERROR(values.Gather(ready));  // all ranks; then evaluation may read them
//   ASSIGN_OR_RETURN(std::vector<float> weight, values.Read("conv1.weight"));  // all ranks
//
// Nothing may be in flight. *Ownership*: borrows all that it is made from. *Errors*: those of the
// device and the communicator; an error of one rank in a call of all ranks is one of all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/core/run/session/session_executables.h"
#include "neap/core/run/session_results.h"
#include "neap/core/run/tensor_values.h"

namespace neap {

class PersistentValues {
 public:
  PersistentValues(Device& device, SessionExecutables& executables, Communicator* group)
      : device_(device), executables_(executables), group_(group) {}

  // To be called once the executables are created.
  void Adopt();
  // The program with those tensors only.
  const Program& stored() const { return stored_; }
  // Whether the session has slices of them; what says so below is then to be called by all ranks.
  bool is_sharded() const { return is_sharded_; }

  // Random values take some 40 ns each, seconds for a large network. A session that gets its
  // parameters from a file leaves the random ones to Draw(), which writes them if they are not yet
  // there, before anything reads them. Others draw them `at_once`: their steps allocate nothing.
  // External tensors keep the values that they have, and copies of them begin with these.
  absl::Status Initialise(uint64_t seed, bool at_once);
  absl::Status Draw();
  // Rounds the values of external tensors to their 16-bit copies again.
  absl::Status Refresh();
  // Copies states to their backups, if they have any: what batches that are given up have changed
  // outlasts steps that are skipped later.
  absl::Status BackUpStates();
  // What is to be written for a checkpoint of `stored`.
  absl::StatusOr<std::vector<TensorImage>> Images(const LoadedCheckpoint& loaded) const;
  absl::Status Load(const std::vector<TensorImage>& images);
  // Exchanges the values of every parameter with those of its average, of an optimizer that is not
  // sharded. After an error, some may have been exchanged.
  absl::Status ExchangeAverages();

  void StepBegun() { is_stale_ = is_sharded_; }
  // Brings the parameters up to date, if no rank has an error in `ready`. By all ranks, and before
  // Read() and Save(), which expect that it has succeeded.
  absl::Status Gather(const absl::Status& ready);
  // FAILED_PRECONDITION if that is needed.
  absl::Status CheckGathered() const;

  // In N, C, H, W order. By all ranks. Errors: NOT_FOUND.
  absl::StatusOr<std::vector<float>> Read(std::string_view name);
  // What a file of weights has, by all ranks.
  absl::StatusOr<std::vector<NamedTensor>> ReadWeights();
  // By all ranks, of which rank 0 writes the file. Errors: those of SaveCheckpoint().
  absl::Status Save(const std::string& path, CheckpointContents contents,
                    const TrainingPosition& position, DType weights, const FileMetadata& metadata);

 private:
  Executor& executor() const { return *executables_.training().executor; }
  absl::Status Write(const std::vector<TensorImage>& images);
  absl::Status WriteInitial(uint64_t seed, bool random);
  // Writes these copies of other tensors anew.
  absl::Status WriteCopies(absl::FunctionRef<bool(const Tensor& copy)> is_chosen);
  // Whether the caller gives the values of the tensor, or of the one that it begins as.
  bool IsOfCaller(const Tensor& stored) const;
  absl::StatusOr<std::vector<float>> InitialOf(const Tensor& stored, uint64_t seed);
  bool IsRandom(const Tensor& stored) const;
  // Whether they are values for all tensors that are still to be drawn.
  bool CoverUndrawn(const std::vector<TensorImage>& images) const;
  // Of the session's own program; null if the rank has nothing of it.
  const Tensor* Own(const Tensor& stored) const;
  absl::StatusOr<TensorImage> Image(const Tensor& own, const Tensor& stored,
                                    const std::vector<float>& values) const;
  absl::StatusOr<std::vector<float>> Read(const Tensor& stored);
  absl::StatusOr<std::vector<float>> ReadSharded(const Tensor& stored, const Tensor* own);
  // What the ranks have sent, one after the other.
  absl::StatusOr<std::string> Concatenated(std::string_view sent);
  // What a rank that does not write does while rank 0 saves.
  absl::Status ReadAll(CheckpointContents contents);

  Device& device_;
  SessionExecutables& executables_;
  Communicator* const group_;  // null: alone
  Program stored_;
  absl::flat_hash_map<std::string, TensorId> own_;  // by name
  std::optional<uint64_t> undrawn_seed_;            // if random values are still to be drawn
  bool is_sharded_ = false;
  bool is_stale_ = false;    // parameters, outside the rank's slices
  bool has_failed_ = false;  // a call of all ranks, on all of them
};

}  // namespace neap
