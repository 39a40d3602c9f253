// Networks in ONNX files, read and written.
//
// A file has one graph: an image goes in, the scores of the classes come out. (A file that is
// written for other programs may have several inputs and outputs.) Reading it makes a layer of each
// operator, ends the network with a loss (by default labels and the softmax cross-entropy of the
// scores, for each pixel if there are scores for each), and returns the weights by the layers'
// names.
// Computations of shapes, with which exporters state a flatten, are carried out while reading.
// docs/onnx.md lists the operators.
//
//   ASSIGN_OR_RETURN(nets::OnnxModel model, nets::ReadOnnx("resnet18.onnx", {.batch = 64}));
//   ASSIGN_OR_RETURN(Session session, CreateSession(model.graph, *device, {}));
//   RETURN_IF_ERROR(session.LoadWeights(model.weights));
//
// A layer with weights is called after its weight: "layer1.0.conv1" if the file calls that
// "layer1.0.conv1.weight", as exporters of PyTorch do. Other layers have the names of their nodes.
//
// Files come from other programs and may be faulty or hostile: every length, shape and reference is
// checked before anything is made of it, and weights in other files must be in the same folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/tensor.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/graph/graph.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::nets {

// Whether this build reads and writes ONNX files; otherwise both are UNIMPLEMENTED, with the
// packages that they need.
bool BuiltWithOnnx();

struct OnnxOptions {
  // Whatever batch the file states; nullopt: that batch, or 32 if the file is for any.
  std::optional<int64_t> batch = 32;
  std::optional<int64_t> image = {};  // height and width, instead of those that the file states
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
  // The loss that training minimises. SoftmaxCrossEntropy and DiceLoss read labels, others read
  // targets as in Graph::TargetLoss(). The layer that the loss computes itself is dropped at the
  // network's end: a Softmax or LogSoftmax by those of labels, a Sigmoid by BinaryCrossEntropy and
  // FocalLoss. A loss that replaces this one later (nets/with_loss.h) does not bring it back.
  Layer loss = SoftmaxCrossEntropy{};
};

struct OnnxModel {
  Graph graph;  // called like the file, without folder and ".onnx"
  NamedValues weights;
  // The changes that training makes to the network, each as a line of text: a line for each set of
  // nodes that share weights, of which every node gets a copy of its own.
  std::vector<std::string> notices;
};

// Reads opset 9 and newer. Errors: UNIMPLEMENTED naming every node that neap cannot train, with its
// operator and what is wrong, and apart from these the nodes that cannot be read because of them;
// INVALID_ARGUMENT for a file that is no ONNX model or whose shapes do not fit, and for a batch, an
// image or a type out of range; those of core/base/file.h.
// *Complexity*: memory for the file and its weights, at most 2 GiB without weights in other files.
absl::StatusOr<OnnxModel> ReadOnnx(const std::string& path, const OnnxOptions& options);

// The producer that files of WriteOnnx() name. ReadOnnx() keeps what they have: a Pad is a ZeroPad,
// whereas it may become the padding of a convolution in other files.
inline constexpr std::string_view kProducer = "neap";

// Writes the network as it predicts, with opset 17, or 19 for averages with dilation: batch norms
// use their running statistics, dropout does nothing, and any number of images fits. The graph's
// inputs are the feeds that are no targets, and its outputs what the losses compare with targets,
// and the network's outputs. A parameter that layers share is one tensor, called after its owner.
//
// ReadOnnx() refuses a file of several inputs or outputs. Of any other it makes the same layers
// between input and scores, with the same names, weights and shared parameters, but for four:
// TransposedConvolution::bilinear and the numbers of a ScaleShift that it learns, which say how to
// begin, are lost; so are dropout of channels and StochasticDepth, which ONNX does not have; so is
// a ceil_mode that makes no difference where ONNX would have a window more; and an average that
// counts padding becomes two layers if its last windows pass that padding so. The rest is that of
// OnnxOptions: the feeds are called "input" and "labels" or "targets", and the one loss "loss",
// which are not the names of other layers then; and no layer is an output.
//
// `weights` are those of the graph's fp32 program. Errors: UNIMPLEMENTED naming every layer that
// ONNX has no operator for, or an output that is a loss; INVALID_ARGUMENT for a tensor that is
// missing or has another number of values, and for weights above 2 GiB; those of Resolve() and
// core/base/file.h.
absl::Status WriteOnnx(const std::string& path, const Graph& graph, const NamedValues& weights);

}  // namespace neap::nets
