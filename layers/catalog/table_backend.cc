#include "neap/layers/catalog/table_backend.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/step/step_signature.h"

namespace neap {
namespace {

std::string StepText(const StepSignature& signature) {
  return absl::StrCat(std::string(signature.layer.type()), " ", std::string(Name(signature.phase)));
}

bool Matches(const KernelRow& row, const StepSignature& signature) {
  return (row.layer.is_defined_by == nullptr || row.layer.is_defined_by(signature.layer)) &&
         (!row.phase.has_value() || *row.phase == signature.phase);
}

absl::Status WithStep(const absl::Status& status, const StepSignature& signature) {
  return absl::Status(status.code(), absl::StrCat("the kernel registered for ", StepText(signature),
                                                  ": ", status.message()));
}

// Null if there is none with this id.
const KernelCandidate* FindEngine(const KernelCandidates& candidates, std::string_view id) {
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const KernelCandidate& c) { return c.engine.id == id; });
  return found == candidates.end() ? nullptr : &*found;
}

class CustomStepKernel final : public Kernel {
 public:
  CustomStepKernel(const KernelTable& table, StepSignature signature, CustomFunction run,
                   int64_t workspace_bytes)
      : stream_(table.stream),
        enter_(table.enter),
        signature_(std::move(signature)),
        run_(std::move(run)),
        workspace_bytes_(workspace_bytes) {}

  absl::Status Run(const KernelArgs& args) override {
    if (args.workspace_bytes < workspace_bytes_) {
      return absl::InternalError(absl::StrCat(StepText(signature_), " needs ", workspace_bytes_,
                                              " bytes of workspace, not ", args.workspace_bytes));
    }
    if (enter_ != nullptr) RETURN_IF_ERROR(enter_());
    const absl::Status status = WithoutThrowing("the kernel", [&] {
      return run_(CustomRun{{signature_, args}, stream_});
    });
    return status.ok() ? status : WithStep(status, signature_);
  }

 private:
  void* stream_;
  std::function<absl::Status()> enter_;
  StepSignature signature_;
  CustomFunction run_;
  int64_t workspace_bytes_;
};

absl::StatusOr<CustomFunction> FunctionOf(const CustomKernel& kernel,
                                          const StepSignature& signature) {
  if (kernel.make == nullptr && kernel.run == nullptr) {
    return WithStep(
        absl::FailedPreconditionError("it has neither run nor make, so it is for planning only"),
        signature);
  }
  if (kernel.make == nullptr) return kernel.run;
  absl::StatusOr<CustomFunction> run =
      WithoutThrowing("make", [&] { return kernel.make(signature); });
  if (!run.ok()) return WithStep(run.status(), signature);
  if (*run == nullptr) return WithStep(absl::InternalError("make returned no function"), signature);
  return run;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableBackend>> TableBackend::Create(
    KernelTable table, std::vector<CustomKernel> custom) {
  RETURN_IF_ERROR(CheckCustomKernels(custom));
  auto backend = std::make_unique<TableBackend>(std::move(table));
  for (const CustomKernel& kernel : custom) {
    if (!backend->HasRows(kernel.layer_type)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a kernel is registered for layers of type ", kernel.layer_type,
                     ", which neap has; give the layer a type of its own"));
  }
  backend->custom_ = std::move(custom);
  return backend;
}

absl::StatusOr<std::vector<Engine>> TableBackend::Engines(const StepSignature& signature) {
  const auto list = [this](const StepSignature& s) -> absl::StatusOr<std::vector<Engine>> {
    if (table_.enter != nullptr) RETURN_IF_ERROR(table_.enter());
    ASSIGN_OR_RETURN(const KernelCandidates candidates, List(s));
    std::vector<Engine> engines;
    engines.reserve(candidates.size());
    for (const KernelCandidate& candidate : candidates) engines.push_back(candidate.engine);
    return engines;
  };
  return engines_.Get(signature, list);
}

absl::StatusOr<Engine> TableBackend::Find(const StepSignature& signature, std::string_view engine) {
  absl::StatusOr<Engine> listed = Backend::Find(signature, engine);
  if (!absl::IsNotFound(listed.status())) return listed;
  ASSIGN_OR_RETURN(const KernelCandidates unlisted, ListUnlisted(signature));
  const KernelCandidate* const found = FindEngine(unlisted, engine);
  return found != nullptr ? absl::StatusOr<Engine>(found->engine) : listed;
}

absl::StatusOr<std::unique_ptr<Kernel>> TableBackend::MakeKernel(const StepSignature& signature,
                                                                 std::string_view engine) {
  if (table_.enter != nullptr) RETURN_IF_ERROR(table_.enter());
  ASSIGN_OR_RETURN(const KernelCandidates candidates, List(signature));
  if (const KernelCandidate* const found = FindEngine(candidates, engine)) {
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = found->make();
    if (!kernel.ok()) return engines_.Withdraw(signature, engine, kernel.status());
    return kernel;
  }
  ASSIGN_OR_RETURN(const KernelCandidates unlisted, ListUnlisted(signature));
  if (const KernelCandidate* const found = FindEngine(unlisted, engine)) return found->make();
  return absl::NotFoundError(absl::StrCat(table_.device, " has no engine '", std::string(engine),
                                          "' for ", StepText(signature)));
}

absl::StatusOr<KernelCandidates> TableBackend::List(const StepSignature& signature) const {
  if (const CustomKernel* const kernel = FindKernel(custom_, signature))
    return ListCustom(*kernel, signature);
  RETURN_IF_ERROR(CheckDefinition(signature.layer));
  RETURN_IF_ERROR(CheckAccess(signature));
  const KernelRow* const row = RowOf(signature);
  return row != nullptr ? ListBy(row->list, signature) : NoKernel(signature);
}

absl::StatusOr<KernelCandidates> TableBackend::ListBy(const KernelList& list,
                                                      const StepSignature& signature) const {
  return list(table_.view == nullptr ? signature : table_.view(signature));
}

absl::StatusOr<KernelCandidates> TableBackend::ListUnlisted(const StepSignature& signature) const {
  const KernelRow* const row = RowOf(signature);
  const bool has_any =
      FindKernel(custom_, signature) == nullptr && row != nullptr && row->unlisted != nullptr;
  return has_any ? ListBy(row->unlisted, signature) : KernelCandidates();
}

const KernelRow* TableBackend::RowOf(const StepSignature& signature) const {
  const auto row = std::find_if(table_.rows.begin(), table_.rows.end(),
                                [&](const KernelRow& r) { return Matches(r, signature); });
  return row == table_.rows.end() ? nullptr : &*row;
}

absl::StatusOr<KernelCandidates> TableBackend::ListCustom(const CustomKernel& kernel,
                                                          const StepSignature& signature) const {
  ASSIGN_OR_RETURN(Engine engine, EngineOf(kernel, signature));
  const int64_t workspace_bytes = engine.workspace_bytes;
  const auto make = [this, &kernel, signature,
                     workspace_bytes]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
    ASSIGN_OR_RETURN(CustomFunction run, FunctionOf(kernel, signature));
    return std::make_unique<CustomStepKernel>(table_, signature, std::move(run), workspace_bytes);
  };
  return KernelCandidates{{.engine = std::move(engine), .make = make}};
}

// Refuses a layer that has the type of a built-in layer, but another definition.
absl::Status TableBackend::CheckDefinition(const Layer& layer) const {
  for (const KernelRow& row : table_.rows) {
    if (row.layer.is_defined_by == nullptr || row.layer.type != layer.type()) continue;
    if (row.layer.is_defined_by(layer)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("a layer of type ", std::string(layer.type()),
                     " is not the one that neap has; give the layer a type of its own"));
  }
  return absl::OkStatus();
}

// Refuses a signature that accumulates into an operand to which no kernel can add.
absl::Status TableBackend::CheckAccess(const StepSignature& signature) const {
  const bool adds_parts = table_.adds_parts && IsDivisible(signature);
  for (const OperandSpec& operand : signature.operands) {
    const Slot slot = operand.operand.slot;
    if (operand.access != Access::kAccumulate || signature.CanAccumulate(slot)) continue;
    if (adds_parts && slot == Slot::kParamGrad) continue;
    return absl::UnimplementedError(absl::StrCat(table_.device, " has no kernel for ",
                                                 StepText(signature), " that accumulates ",
                                                 ToString(operand.operand)));
  }
  return absl::OkStatus();
}

absl::Status TableBackend::NoKernel(const StepSignature& signature) const {
  std::string message = absl::StrCat(table_.device, " has no kernel for ", StepText(signature));
  if (!HasRows(signature.layer.type())) {
    absl::StrAppend(&message,
                    "; a program that defines the layer registers one when it opens the device or "
                    "asks for its catalog (layers/catalog/custom_kernel.h)");
  }
  return absl::UnimplementedError(message);
}

bool TableBackend::HasRows(std::string_view layer_type) const {
  return std::any_of(table_.rows.begin(), table_.rows.end(), [&](const KernelRow& row) {
    return row.layer.is_defined_by != nullptr && row.layer.type == layer_type;
  });
}

}  // namespace neap
