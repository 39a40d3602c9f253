// States a small network with the installed library and checks it.
#include <neap/neap.h>

#include <iostream>
#include <string>

int main() {
  neap::Graph net({.name = "mlp", .batch = 4});
  std::string x = net.Input({1, 28, 28});
  x = net.Add("fc1", neap::FullyConnected{.out_features = 100}, {x});
  x = net.Add("relu1", neap::Relu{}, {x});
  x = net.Add("fc2", neap::FullyConnected{.out_features = 10}, {x});
  net.Loss(x);

  const absl::StatusOr<neap::ResolvedGraph> resolved = Resolve(net, neap::Mode::kTraining);
  if (!resolved.ok()) {
    std::cerr << resolved.status() << "\n";
    return 1;
  }
  std::cout << net.options().name << ": " << resolved->layers.size() << " layers\n";
}
