#include "neap/core/program/homes.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/region.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap {
namespace {

absl::Status CheckHome(const TensorHome& named, const Tensor& tensor, const Program& program) {
  if (program.options.shard.ranks > 1 && named.home != Home::kArena) {
    return absl::InvalidArgumentError(
        absl::StrCat("with a sharded optimizer all persistent tensors stay in the arena; '",
                     tensor.name, "' cannot have another home"));
  }
  if (named.home == Home::kExternal && program.options.share.ranks > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", tensor.name,
                     "' cannot be external among several ranks, which do not compare its values"));
  }
  if (named.home == Home::kExternal && tensor.copy_of.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", tensor.name, "' cannot be external: it is a copy of '",
                     program.tensor(*tensor.copy_of).name, "', which can"));
  }
  if (named.home == Home::kExternal && tensor.id == program.loss_scale) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", tensor.name, "' cannot be external: the session itself counts with its values"));
  }
  if (named.home == Home::kHost && tensor.role == Role::kState && program.Pauses()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", tensor.name,
                     "' cannot be on the host: forward changes it, and the step may be given up "
                     "when it pauses"));
  }
  return absl::OkStatus();
}

}  // namespace

HomeTable::HomeTable(const ProgramOptions& options) : options_(options) {
  for (const TensorHome& one : options.homes) named_.emplace(one.tensor, one.home);
}

bool HomeTable::IsOffloadable(const Tensor& tensor) const {
  const bool may_move = tensor.role == Role::kParam || tensor.role == Role::kMaster ||
                        tensor.role == Role::kOptimizer;
  return may_move && options_.shard.ranks == 1 &&
         tensor.spec.size_bytes() >= kMinOffloadedParamBytes && !named_.contains(tensor.name);
}

Home HomeTable::Of(const Tensor& tensor) const {
  const auto named = named_.find(tensor.name);
  if (named != named_.end()) return named->second;
  return options_.offload_params && IsOffloadable(tensor) ? Home::kHost : Home::kArena;
}

Program WithOffloadedParams(Program program, bool offload_params) {
  program.options.offload_params = offload_params;
  const HomeTable homes(program.options);
  for (Tensor& tensor : program.tensors) {
    if (IsPersistent(tensor.role)) tensor.home = homes.Of(tensor);
  }
  return program;
}

int64_t HostBytes(const Program& program) {
  int64_t bytes = 0;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.home == Home::kHost) bytes += RoundUp(tensor.spec.size_bytes(), kBlockBytes);
  }
  return bytes;
}

absl::Status CheckHomes(const Program& program) {
  if (program.options.homes.empty()) return absl::OkStatus();
  absl::flat_hash_map<std::string_view, const Tensor*> persistent;
  for (const Tensor& tensor : program.tensors) {
    if (IsPersistent(tensor.role)) persistent.emplace(tensor.name, &tensor);
  }
  absl::flat_hash_set<std::string_view> named;
  for (const TensorHome& one : program.options.homes) {
    const auto tensor = persistent.find(one.tensor);
    if (tensor == persistent.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          program.net.name, " has no persistent tensor '", one.tensor, "' that could have a home"));
    }
    if (!named.insert(one.tensor).second)
      return absl::InvalidArgumentError(
          absl::StrCat("the home of '", one.tensor, "' is given twice"));
    RETURN_IF_ERROR(CheckHome(one, *tensor->second, program));
  }
  return absl::OkStatus();
}

}  // namespace neap
