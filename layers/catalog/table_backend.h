// A backend as a table: its rows say which function lists the kernels of which step.
//
// All backends answer the same questions in the same way: can the kernels do what the signature
// asks, which row is the step's, which engines does it list, was that asked before, and what
// follows when one of them does not build. That is here once, with the kernels that a program
// brings for layers of its own; a backend has its rows, its libraries' versions, and what makes its
// device current.
//
// Planning asks for the engines of every step, so listing must be cheap: what it takes to make a
// kernel (code generation in oneDNN, the build of a cuDNN plan) is a function in the candidate,
// called when the kernel is wanted.
//
//   KernelTable table = {.device = "the CPU",
//                        .versions = "oneDNN 2.6.3",
//                        .rows = {{kAnyLayer, Phase::kUpdate, SgdUpdate},
//                                 {Relu::kType, Phase::kForward, ReluForward}}};
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

inline constexpr std::string_view kAnyLayer = "";

struct KernelRow {
  std::string_view layer_type;  // or kAnyLayer
  std::optional<Phase> phase;   // nullopt: every phase
  // In the library's order. Errors: UNIMPLEMENTED where no kernel can do what the signature asks.
  std::function<absl::StatusOr<KernelCandidates>(const StepSignature& signature)> list;
};

struct KernelTable {
  std::string device;           // as messages name it: "the CPU"
  std::string versions;         // EngineCatalog::Versions()
  std::vector<KernelRow> rows;  // the first that matches a step is the step's
  bool adds_parts = false;      // some kernels add to parameter gradients: AddingSignature()
  void* stream = nullptr;       // CustomRun::stream
  // Makes the device current; called before a kernel is made, and before a custom one runs. Null
  // where there is nothing to do.
  std::function<absl::Status()> enter = nullptr;
};

// Also the catalog of a device that is not here: then nobody calls MakeKernel(). *Threads*: one at
// a time.
class TableBackend final : public Backend {
 public:
  // Errors: those of CheckCustomKernels(); INVALID_ARGUMENT for a kernel of a layer type that the
  // table has rows for.
  static absl::StatusOr<std::unique_ptr<TableBackend>> Create(KernelTable table,
                                                              std::vector<CustomKernel> custom);
  explicit TableBackend(KernelTable table) : table_(std::move(table)) {}

  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override;
  std::string Versions() const override { return table_.versions; }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override;

 private:
  absl::StatusOr<KernelCandidates> List(const StepSignature& signature) const;
  absl::StatusOr<KernelCandidates> ListCustom(const CustomKernel& kernel,
                                              const StepSignature& signature) const;
  absl::Status CheckDTypes(const StepSignature& signature) const;
  absl::Status CheckAccess(const StepSignature& signature) const;
  absl::Status NoKernel(const StepSignature& signature) const;
  bool HasRows(std::string_view layer_type) const;

  KernelTable table_;
  std::vector<CustomKernel> custom_;
  EngineCache engines_;
};

}  // namespace neap
