// An ONNX model written node by node, for tests.
//
//   OnnxBuilder model({2, 3, 8, 8});
//   const std::string y = model.Node("Conv", {"x", model.Random("c.weight", {4, 3, 3, 3})},
//                                    {{"pads", Ints{1, 1, 1, 1}}});
//   model.EndWithClasses(y, 5);
//   const std::string path = model.Write(directory);
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "onnx_schema.pb.h"
#include "tests/scratch_directory.h"

namespace neap::testing {

using Ints = std::vector<int64_t>;
// The product of the extents.
int64_t Elements(const Ints& dims);
using AttributeValue = std::variant<int64_t, float, std::string, Ints>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

class OnnxBuilder {
 public:
  // The input "x" has these extents; 0 is one that the file leaves open.
  explicit OnnxBuilder(const Ints& input, uint64_t seed = 1);

  // Returns the name of the node's first output; the node's name is OP_n.
  std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {});
  // Tensors of the file. Returns the name.
  std::string Floats(const std::string& name, const Ints& dims, const std::vector<float>& values);
  std::string Integers(const std::string& name, const Ints& values);
  // Values from -1 to 1, or from 0.5 to 1.5.
  std::string Random(const std::string& name, const Ints& dims);
  std::string RandomPositive(const std::string& name, const Ints& dims);
  std::string Scalar(const std::string& name, float value) { return Floats(name, {}, {value}); }

  // Adds a matrix product from the `inputs` elements of an image to 5 classes as the output.
  void EndWithClasses(const std::string& value, int64_t inputs);
  void Output(const std::string& value);

  onnx_schema::Model& model() { return model_; }
  onnx_schema::Graph& graph() { return *model_.mutable_graph(); }
  // Returns the file's path.
  std::string Write(const ScratchDirectory& directory,
                    const std::string& name = "model.onnx") const;

 private:
  // From 0 to 1.
  float NextRandom();
  onnx_schema::Model model_;
  uint64_t state_;
};

}  // namespace neap::testing
