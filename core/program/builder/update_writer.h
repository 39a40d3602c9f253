// Adds the optimizer's steps to a program, where they belong: behind backward of the last layer of
// a group, or, if gradients are clipped or the loss is scaled, all of them at the end of the
// iteration. Private to the program's builder.
//
//   UpdateWriter updates(graph, tensors, steps, program);
//   updates.Group();
//   for (size_t i = graph.layers.size(); i-- > 0;) {
//     Backward(graph.layers[i]);
//     updates.AfterBackward(graph.layers[i].id);
//   }
//   updates.End();
//
// *Ownership*: borrows all that it is made of.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/builder/optimizer_steps.h"
#include "neap/core/program/layer_tensors.h"
#include "neap/core/program/program.h"

namespace neap {

class UpdateWriter {
 public:
  // `tensors` is by LayerId; the steps' layers are the last of the program.
  UpdateWriter(const ResolvedGraph& graph, absl::Span<LayerTensors> tensors, OptimizerSteps steps,
               Program& program)
      : graph_(graph), tensors_(tensors), steps_(steps), program_(program) {}

  // Chooses the layers that are updated together (LayerTensors::updated_group).
  void Group();
  // Adds the step of the group that ends with this layer, if one does.
  void AfterBackward(LayerId layer);
  void End();

 private:
  // Whether all gradients wait for the last one, with which it is known how parameters are updated.
  bool ChecksGradients() const;
  std::vector<std::vector<LayerId>> Groups(const std::vector<LayerId>& layers) const;
  std::vector<NamedGradient> ParamGrads() const;
  std::vector<UpdatedLayer> Updated(const std::vector<LayerId>& group) const;
  void Add(Step step, LayerId layer);

  const ResolvedGraph& graph_;
  absl::Span<LayerTensors> tensors_;
  const OptimizerSteps steps_;
  Program& program_;
};

}  // namespace neap
