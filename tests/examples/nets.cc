// The examples in the headers of nets, compiled and not run.

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/graph.h"
#include "neap/nets/alexnet.h"
#include "neap/nets/densenet.h"
#include "neap/nets/fcn.h"
#include "neap/nets/inception_v4.h"
#include "neap/nets/lenet.h"
#include "neap/nets/registry.h"
#include "neap/nets/resnet.h"
#include "neap/nets/unet.h"
#include "neap/nets/vgg.h"

namespace neap::examples {

// nets/alexnet.h
void BuildAlexNets() {
  Graph net = nets::AlexNet({.batch = 128});
  Graph paper = nets::AlexNetPaper({.batch = 200});
}

// nets/densenet.h
void BuildDenseNets() {
  Graph densenet121 = nets::DenseNet({.batch = 64});
  Graph densenet161 = nets::DenseNet({.blocks = {6, 12, 36, 24}, .growth_rate = 48, .stem = 96});
  Graph bc100 = nets::CifarDenseNet({.depth = 100, .bottleneck = true, .compression = 0.5});
}

// nets/fcn.h
void BuildFcn() { Graph net = nets::Fcn8s({.image = 384, .batch = 8}); }

// nets/inception_v4.h
void BuildInception() { Graph net = nets::InceptionV4({.batch = 32}); }

// nets/lenet.h
void BuildLeNet() { Graph net = nets::LeNet({.batch = 64}); }

// nets/registry.h
absl::Status BuildByName() {
  ASSIGN_OR_RETURN(Graph net, nets::Build("resnet50", {.batch = 128, .image = 192}));
  return absl::OkStatus();
}

// nets/resnet.h
void BuildResNets() {
  Graph resnet50 = nets::ResNet({.batch = 128});
  Graph resnet18 = nets::ResNet({.blocks = {2, 2, 2, 2}, .bottleneck = false, .batch = 128});
  Graph deep = nets::ResNet(nets::ResNetOfDepth(1001));
  Graph resnet20 = nets::CifarResNet({.n = 3, .batch = 128});
}

// nets/unet.h
void BuildUNet() { Graph net = nets::UNet({.image = 256, .batch = 8, .batch_norm = true}); }

// nets/vgg.h
void BuildVgg() { Graph net = nets::Vgg({.convolutions = nets::kVgg19, .batch = 64}); }

}  // namespace neap::examples
