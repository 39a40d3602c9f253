// What the layers of tokens read and write, and what they refuse.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/layers/convolution.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
#include "tests/core/step/specify_checks.h"

namespace neap {
namespace {

TensorSpec Ids(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kInt32}; }

TEST_CASE("an embedding has the network's type and layout, and reads ids alone in backward") {
  const Embedding layer = {.vocabulary = 10, .channels = 6};
  const LayerContext context = {
      .inputs = {Ids({2, 7})}, .dtype = DType::kBf16, .layout = Layout::kChannelsLast};
  const LayerSpec spec = layer.Specify(context).value();
  CHECK(spec.output.ToString() == "2x6x7 bf16 nwc");
  CHECK(spec.params[0].tensor.ToString() == "10x6x1 bf16 nwc");
  CHECK(spec.params[0].saved_shape == Shape{10, 6});
  CHECK(spec.params[0].init == Init{Init::Kind::kNormal, 1});
  CHECK(spec.index_count == 10);
  CHECK(StepsText(spec) ==
        "forward: input[0] param[0] -> output[0]\n"
        "backward_params: input[0] output_grad[0] -> param_grad[0] adds to param_grad\n");
  CHECK(Specified(layer, {Ids({2})}).output.shape == Shape{2, 6, 1, 1});
  CHECK(Specified(layer, {Ids({2, 3, 4})}).output.shape == Shape{2, 6, 3, 4});
}

TEST_CASE("the weights of an embedding, a convolution and a linear cross-entropy are alike") {
  const TensorSpec x = {.shape = {2, 6, 7}, .layout = Layout::kChannelsLast};
  const TensorSpec of_head = Specified(Convolution{.out_channels = 10}, {x}).params[0].tensor;
  const LayerSpec loss = Specified(LinearCrossEntropy{.classes = 10}, {x, Ids({2, 7})});
  const LayerSpec table = Embedding{.vocabulary = 10, .channels = 6}
                              .Specify({.inputs = {Ids({2, 7})}, .layout = x.layout})
                              .value();
  CHECK(loss.params[0].tensor == of_head);
  CHECK(table.params[0].tensor == of_head);
  CHECK(loss.params[0].saved_shape == Shape{10, 6});
}

TEST_CASE("positions and a token are parameters for all examples") {
  const TensorSpec x = {.shape = {4, 6, 7}, .dtype = DType::kFp16, .layout = Layout::kChannelsLast};
  const LayerSpec positions = Specified(PositionEmbedding{}, {x});
  CHECK(positions.params[0].tensor.ToString() == "1x6x7 fp16 nwc");
  CHECK(StepsText(positions) ==
        "forward: input[0] param[0] -> output[0] output[0] over input[0]\n"
        "backward_data: output_grad[0] -> input_grad[0] param_grad[0]"
        " input_grad[0] over output_grad[0] adds to param_grad\n");
  const LayerSpec token = Specified(PrependToken{}, {x});
  CHECK(token.output.ToString() == "4x6x8 fp16 nwc");
  CHECK(token.params[0].tensor.ToString() == "1x6x1 fp16 nwc");
  CHECK(StepsText(token) ==
        "forward: input[0] param[0] -> output[0]\n"
        "backward_data: output_grad[0] -> input_grad[0] param_grad[0] adds to param_grad\n");
}

TEST_CASE("a linear cross-entropy computes everything in backward, and without it in forward") {
  const std::vector<TensorSpec> inputs = {{.shape = {2, 6, 7}, .dtype = DType::kBf16}, Ids({2, 7})};
  const LinearCrossEntropy layer = {.classes = 10, .bias = true, .weight = 0.5F};
  const LayerSpec spec = Specified(layer, inputs);
  CHECK(spec.output.ToString() == "2x1x7 fp32 ncw");
  CHECK(spec.saved.empty());
  CHECK(spec.index_count == 10);
  CHECK(spec.loss_weight == 0.5F);
  CHECK(StepsText(spec) ==
        "forward:  -> output[0] state[0] adds to state\n"
        "backward_data: input[0] input[1] param[0] param[1] -> input_grad[0] param_grad[0]"
        " param_grad[1] + state[0] input_grad[0] over input[0] adds to param_grad"
        " adds to state\n");
  CHECK(!spec.steps[0].depends_on_part);
  CHECK(spec.steps[1].depends_on_part);
  CHECK(Specified(layer, inputs, Mode::kInference).steps[0].depends_on_part);
  CHECK(StepsText(Specified(layer, inputs, Mode::kInference)) ==
        "forward: input[0] input[1] param[0] param[1] -> output[0] state[0] adds to state\n");
}

TEST_CASE("layers of tokens refuse what they cannot look up or compare") {
  const TensorSpec x = {.shape = {2, 6, 7}};
  const Embedding table = {.vocabulary = 10, .channels = 6};
  CheckRefused(table, {}, "takes 1 input, ids, got 0");
  CheckRefused(table, {x}, "ids are 2x6x7 fp32 ncw, expected int32 {N, T}, {N, H, W} or {N}");
  CheckRefused(Embedding{.vocabulary = 0, .channels = 6}, {Ids({2})},
               "vocabulary 0 must be from 1 to 2147483647");
  CheckRefused(Embedding{.vocabulary = 10}, {Ids({2})}, "channels 0 must be positive");
  CheckRefused(Embedding{.vocabulary = 10, .channels = 6, .padding = 10}, {Ids({2})},
               "padding 10 must be an id below 10");
  CheckRefused(PrependToken{}, {Image({2, 6, 5, 5})},
               "input 0 is 2x6x5x5 fp32 nchw, expected a sequence {N, C, T}");
  const LinearCrossEntropy loss = {.classes = 10};
  CheckRefused(loss, {x}, "takes 2 inputs, x and labels, got 1");
  CheckRefused(loss, {x, Ids({2})},
               "labels are 2 int32 nchw, expected int32 2x7 for logits of 2x6x7");
  CheckRefused(LinearCrossEntropy{}, {x, Ids({2, 7})}, "classes 0 must be from 1 to 2147483647");
  CheckRefused(LinearCrossEntropy{.classes = 10, .weight = 0}, {x, Ids({2, 7})},
               "its weight is 0, expected a positive number");
}

}  // namespace
}  // namespace neap
