// A backend defined by a table, whose rows map a step to the function that lists its kernels.
//
// This class has the parts that all backends share: it checks that kernels support the signature,
// finds the step's row, caches the listed engines, withdraws engines that do not build, and runs
// the kernels that a program registers for custom layers. A backend supplies its rows, the versions
// of its libraries, and a function that makes its device current.
//
// Planning asks for the engines of every step, so listing must be cheap. The expensive part of
// making a kernel (code generation in oneDNN, building a cuDNN plan) is a function in the
// candidate, which is called only for the chosen engine.
//
//   KernelTable table = {.device = "the CPU",
//                        .versions = "oneDNN 2.6.3",
//                        .rows = {{kAnyLayer, Phase::kUpdate, SgdUpdate},
//                                 {kLayer<Relu>, Phase::kForward, ReluForward}}};
//   ASSIGN_OR_RETURN(auto backend, TableBackend::Create(std::move(table), custom_kernels));
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/custom_kernel.h"
#include "neap/layers/catalog/engine_cache.h"

namespace neap {

struct KernelCandidate {
  Engine engine;
  std::function<absl::StatusOr<std::unique_ptr<Kernel>>()> make;
};
using KernelCandidates = std::vector<KernelCandidate>;

// The layers that a row is for. The kernels of a row read the fields of one definition, so a layer
// of the same kType with another definition must not reach them.
struct RowLayer {
  std::string_view type = "";                           // kType; empty: every layer
  bool (*is_defined_by)(const Layer& layer) = nullptr;  // whether As<Definition>() is not null
};
inline constexpr RowLayer kAnyLayer = {};
template <typename Definition>
inline constexpr RowLayer kLayer = {
    Definition::kType, [](const Layer& layer) { return layer.As<Definition>() != nullptr; }};

// Errors: UNIMPLEMENTED if no kernel supports the signature.
using KernelList = std::function<absl::StatusOr<KernelCandidates>(const StepSignature& signature)>;

struct KernelRow {
  RowLayer layer;
  std::optional<Phase> phase;  // nullopt: every phase
  KernelList list;             // in the library's order
  // Kernels that Engines() leaves out, but a plan may name. May be null.
  KernelList unlisted = nullptr;
};

struct KernelTable {
  std::string device;           // its name in messages: "the CPU"
  std::string versions;         // EngineCatalog::Versions()
  std::vector<KernelRow> rows;  // the first row that matches a step is used
  bool adds_parts = false;      // some kernels add to parameter gradients: AddingSignature()
  void* stream = nullptr;       // CustomRun::stream
  // The signature that the rows are given for a step's, such as one with other axes
  // (layers/catalog/kernel_axes.h). May be null.
  StepSignature (*view)(StepSignature signature) = nullptr;
  // Makes the device current on the calling thread; called before engines are listed that are not
  // known yet, before a kernel is made, and before a custom kernel runs. May be null.
  std::function<absl::Status()> enter = nullptr;
};

// A layer whose kType has rows, but whose definition is another than theirs, is INVALID_ARGUMENT.
//
// Also serves as the catalog of a device that is not present; MakeKernel() is not called then.
// *Threads*: those of a catalog and of a backend (core/step/kernel.h), so the rows' functions, and
// CustomKernel::workspace_bytes, must be safe from several at once.
class TableBackend final : public Backend {
 public:
  // Errors: those of CheckCustomKernels(); INVALID_ARGUMENT for a custom kernel of a layer type
  // that has rows in the table.
  static absl::StatusOr<std::unique_ptr<TableBackend>> Create(KernelTable table,
                                                              std::vector<CustomKernel> custom);
  explicit TableBackend(KernelTable table) : table_(std::move(table)) {}

  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override;
  std::string Versions() const override { return table_.versions; }
  absl::StatusOr<Engine> Find(const StepSignature& signature, std::string_view engine) override;
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override;

 private:
  absl::StatusOr<KernelCandidates> List(const StepSignature& signature) const;
  // The candidates that `list`, of the step's row, lists.
  absl::StatusOr<KernelCandidates> ListBy(const KernelList& list,
                                          const StepSignature& signature) const;
  absl::StatusOr<KernelCandidates> ListUnlisted(const StepSignature& signature) const;
  const KernelRow* RowOf(const StepSignature& signature) const;  // null if there is none
  absl::StatusOr<KernelCandidates> ListCustom(const CustomKernel& kernel,
                                              const StepSignature& signature) const;
  absl::Status CheckDefinition(const Layer& layer) const;
  absl::Status CheckAccess(const StepSignature& signature) const;
  absl::Status NoKernel(const StepSignature& signature) const;
  bool HasRows(std::string_view layer_type) const;

  KernelTable table_;
  std::vector<CustomKernel> custom_;
  EngineCache engines_;
};

}  // namespace neap
