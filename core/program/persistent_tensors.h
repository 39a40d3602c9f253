// The persistent tensors of a program: parameters, their masters and what the optimizer keeps of
// them, states and their backups, and the loss scale. Private to the program's builder.
//
// They come first in the program, in the order of its layers, which depends on how these are fused.
// A program that shares its persistent tensors with another one, such as that for inference with
// the one for training, therefore adopts them instead of making its own.
//
//   PersistentTensors persistent(program);  // program.net and .options are set
//   persistent.Adopt(whole);                // if the program shares those of `whole`
//   LayerPersistent conv1 = persistent.Make(layer);  // conv1.params[0].id: "conv1.weight"
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/homes.h"
#include "neap/core/program/program.h"
#include "neap/core/program/shards.h"

namespace neap {

// A parameter, and what the optimizer keeps of it.
struct PersistentParam {
  TensorId id;
  std::optional<TensorId> master, moment, second_moment, average;
  std::optional<TensorId> gradient;  // if those of several batches are summed
  std::optional<Slice> owned;        // the elements that this rank updates; nullopt: all
  bool is_borrowed = false;          // another layer has it, too, and with that it is updated
};

// Those of one layer.
struct LayerPersistent {
  std::vector<PersistentParam> params;
  std::vector<TensorId> states;
  std::vector<std::optional<TensorId>> backups;  // of each state that an update keeps or restores
};

class PersistentTensors {
 public:
  explicit PersistentTensors(Program& program)
      : program_(program), homes_(program.options), division_(program.options.shard.ranks) {}

  // Adds the persistent tensors of `whole`; those of the layers must then be among them, by name,
  // role and spec.
  void Adopt(const Program& whole);
  LayerPersistent Make(const ResolvedLayer& layer);
  // If the loss is scaled.
  void MakeLossScale();
  // The first tensor that was made, but not found among those adopted.
  const std::optional<std::string>& unknown() const { return unknown_; }

 private:
  TensorId Add(Tensor tensor);
  PersistentParam MakeParam(const std::string& name, const ParamSpec& param);
  void MakeState(const ResolvedLayer& layer, const StateSpec& state, LayerPersistent& made);
  bool scales_loss() const;
  // By rank; none if the optimizer is not sharded.
  std::vector<Slice> ShardsOf(const std::string& param, int64_t elements);

  Program& program_;
  HomeTable homes_;
  ShardDivision division_;
  absl::flat_hash_map<std::string, TensorId> adopted_;
  absl::flat_hash_map<std::string, PersistentParam> params_;  // that were made
  std::optional<std::string> unknown_;
};

}  // namespace neap
