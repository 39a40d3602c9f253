#include <neap/neap.h>

#include <iostream>

absl::Status Train() {
  neap::Graph net = neap::nets::CifarResNet({.n = 1, .image = 8, .batch = 64, .channels = 1});
  ASSIGN_OR_RETURN(auto device, neap::CpuDevice::Open());  // or neap::CudaDevice::Open(0)
  neap::PlannerOptions planning = {.budget_bytes = 3 * neap::kMiB};
  planning.host_budget_bytes = 0;  // on a CPU, what is moved to the host stays in the same memory
  ASSIGN_OR_RETURN(auto session, neap::CreateMeasuredSession(net, *device, planning));
  std::cout << session.plan().Summary();  // what is where, and the exact peak
  ASSIGN_OR_RETURN(auto digits, neap::OpenDataset("idx:examples/data/digits", {}));
  ASSIGN_OR_RETURN(auto loader, neap::Loader::Create(*digits, {.batch = 64}));
  for (int step = 0; step < 100; ++step) {
    ASSIGN_OR_RETURN(neap::Batch batch, loader->Next());
    ASSIGN_OR_RETURN(float loss, session.TrainStep(batch));
    if (step % 10 == 9) std::cout << "step " << step + 1 << "  loss " << loss << "\n";
  }
  return session.Save("digits.safetensors");
}

int main() {
  const absl::Status status = Train();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
