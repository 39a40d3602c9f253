#include "neap/layers/cpu/candidates.h"

namespace neap::cpu {
namespace {

class LoopKernel final : public Kernel {
 public:
  LoopKernel(StepSignature signature, Loop loop) : signature_(std::move(signature)), loop_(loop) {}
  absl::Status Run(const KernelArgs& args) override {
    loop_({.signature = signature_, .run = args});
    return absl::OkStatus();
  }

 private:
  StepSignature signature_;
  Loop loop_;
};

}  // namespace

Candidates OwnLoop(const StepSignature& signature, Loop loop, int64_t workspace_bytes) {
  return {{.engine = {.id = std::string(kOwnEngine), .workspace_bytes = workspace_bytes},
           .make = [signature, loop]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
             return std::make_unique<LoopKernel>(signature, loop);
           }}};
}

}  // namespace neap::cpu
