// Trains a small network with a layer that neap does not have on handwritten digits, on the GPU if
// there is one. Then plans the network for an H200. docs/own-layers.md explains it.
#include <neap/advanced.h>

#include <iostream>
#include <memory>
#include <string>

#include "gelu.h"

neap::Graph Net() {
  neap::Graph net({.name = "gelu-net", .batch = 64});
  std::string x = net.Input({1, 8, 8});
  x = net.Add("conv1", neap::Convolution{.out_channels = 16, .kernel = 3, .padding = 1}, {x});
  x = net.Add("gelu1", QuickGelu{}, {x});
  x = net.Add("conv2", neap::Convolution{.out_channels = 32, .kernel = 3, .padding = 1}, {x});
  x = net.Add("gelu2", QuickGelu{}, {x});
  x = net.Add("pool", neap::MaxPool{}, {x});
  x = net.Add("fc", neap::FullyConnected{.out_features = 10}, {x});
  net.Loss(x, neap::SoftmaxCrossEntropy{});
  return net;
}

absl::StatusOr<std::unique_ptr<neap::Device>> OpenDevice() {
  absl::StatusOr<std::unique_ptr<neap::Device>> gpu =
      neap::CudaDevice::Open(0, {.kernels = CudaQuickGeluKernels()});
  if (gpu.ok()) return gpu;
  return neap::CpuDevice::Open({.kernels = CpuQuickGeluKernels()});
}

absl::StatusOr<neap::PlanResult> PlanForH200() {
  ASSIGN_OR_RETURN(const neap::DeviceDescription h200, neap::DescribedDevice("h200"));
  ASSIGN_OR_RETURN(const neap::Program program, neap::Lower(Net(), {}, h200));
  ASSIGN_OR_RETURN(const auto catalog, neap::DescribedCatalog("h200", CudaQuickGeluKernels()));
  return neap::MakePlan(program, {}, h200, *catalog);
}

absl::Status Train() {
  ASSIGN_OR_RETURN(const auto device, OpenDevice());
  ASSIGN_OR_RETURN(auto session,
                   neap::CreateSession(Net(), *device, {.budget_bytes = 3 * neap::kMiB}));
  std::cout << session.plan().Summary();
  ASSIGN_OR_RETURN(auto digits, neap::OpenDataset("idx:examples/data/digits", {}));
  ASSIGN_OR_RETURN(auto loader, neap::Loader::Create(*digits, {.batch = 64}));
  for (int step = 1; step <= 100; ++step) {
    ASSIGN_OR_RETURN(const neap::Batch batch, loader->Next());
    ASSIGN_OR_RETURN(const float loss, session.TrainStep(batch));
    if (step % 20 == 0) std::cout << "step " << step << "  loss " << loss << "\n";
  }
  ASSIGN_OR_RETURN(const neap::PlanResult h200, PlanForH200());
  std::cout << "on an H200 it takes " << h200.plan.peak_bytes << " bytes\n";
  return absl::OkStatus();
}

int main() {
  const absl::Status status = Train();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
