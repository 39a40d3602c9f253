#include "neap/layers/cpu/addend.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/step/step_signature.h"

namespace neap::cpu {
namespace {

using namespace operands;

// The positions of the operands of the sum.
struct AddendPlaces {
  size_t dx = 0, addend = 0;
};

class AddendKernel final : public Kernel {
 public:
  AddendKernel(std::unique_ptr<Kernel> gradient, std::unique_ptr<Kernel> addition,
               AddendPlaces places)
      : gradient_(std::move(gradient)), addition_(std::move(addition)), places_(places) {}

  absl::Status Run(const KernelArgs& args) override {
    std::vector<void*> operands(args.operands.begin(), args.operands.end());
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(places_.addend));
    RETURN_IF_ERROR(gradient_->Run({.operands = operands,
                                    .workspace = args.workspace,
                                    .workspace_bytes = args.workspace_bytes}));
    void* const sum[] = {args.operands[places_.dx], args.operands[places_.addend]};
    return addition_->Run({.operands = sum});
  }

 private:
  std::unique_ptr<Kernel> gradient_, addition_;
  AddendPlaces places_;
};

}  // namespace

ListCandidates WithAddend(ListCandidates list) {
  return [list = std::move(list)](const StepSignature& signature) -> absl::StatusOr<Candidates> {
    const std::optional<size_t> addend = signature.Find(Addend());
    if (!addend.has_value()) return list(signature);
    const AddendPlaces places = {.dx = *signature.Find(Dx()), .addend = *addend};
    StepSignature without = signature;
    without.operands.erase(without.operands.begin() + static_cast<std::ptrdiff_t>(*addend));
    ASSIGN_OR_RETURN(Candidates candidates, list(without));
    ASSIGN_OR_RETURN(const Candidates additions,
                     AddGradients(AdditionSignature(signature.Spec(Dx()))));
    for (Candidate& candidate : candidates) {
      candidate.make = [make = candidate.make, add = additions.front().make,
                        places]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
        ASSIGN_OR_RETURN(std::unique_ptr<Kernel> gradient, make());
        ASSIGN_OR_RETURN(std::unique_ptr<Kernel> addition, add());
        return std::make_unique<AddendKernel>(std::move(gradient), std::move(addition), places);
      };
    }
    return candidates;
  };
}

}  // namespace neap::cpu
