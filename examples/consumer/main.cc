// Uses the installed library: trains a small network for one step on the CPU, and plans it for a
// GPU that is not here.
#include <neap/advanced.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int64_t kBatch = 4;

neap::Graph Mlp() {
  neap::Graph net({.name = "mlp", .batch = kBatch});
  std::string x = net.Input({1, 28, 28});
  x = net.Add("fc1", neap::FullyConnected{.out_features = 100}, {x});
  x = net.Add("relu1", neap::Relu{}, {x});
  x = net.Add("fc2", neap::FullyConnected{.out_features = 10}, {x});
  net.Loss(x, neap::SoftmaxCrossEntropy{});
  return net;
}

// The bytes that training takes on an H200.
absl::StatusOr<int64_t> BytesOnH200(const neap::Graph& net) {
  ASSIGN_OR_RETURN(const neap::DeviceDescription h200, neap::DescribedDevice("h200"));
  ASSIGN_OR_RETURN(const neap::Program program, Lower(net, {}, h200));
  ASSIGN_OR_RETURN(const std::unique_ptr<neap::EngineCatalog> catalog,
                   neap::DescribedCatalog("h200"));
  ASSIGN_OR_RETURN(const neap::PlanResult result, MakePlan(program, {}, h200, *catalog));
  RETURN_IF_ERROR(Verify(result.plan));
  return result.plan.peak_bytes;
}

absl::Status Run() {
  const neap::Graph net = Mlp();
  ASSIGN_OR_RETURN(const neap::ResolvedGraph resolved, Resolve(net, neap::Mode::kTraining));
  ASSIGN_OR_RETURN(const std::unique_ptr<neap::CpuDevice> device, neap::CpuDevice::Open());
  ASSIGN_OR_RETURN(neap::Session session, neap::CreateSession(net, *device, {}));
  const neap::Batch batch = {
      .images = std::vector<float>(kBatch * 28 * 28, 0.5F), .labels = {0, 1, 2, 3}, .size = kBatch};
  ASSIGN_OR_RETURN(const float loss, session.TrainStep(batch));

  ASSIGN_OR_RETURN(const int64_t h200_bytes, BytesOnH200(net));
  std::cout << net.options().name << ": " << resolved.layers.size() << " layers, loss " << loss
            << ", " << session.memory().measured_peak_bytes << " bytes; on an H200 " << h200_bytes
            << "\n";
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}
