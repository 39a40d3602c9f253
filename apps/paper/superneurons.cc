#include "apps/paper/superneurons.h"

#include <string>
#include <vector>

namespace neap::apps {

std::vector<PaperItem> SuperNeuronsItems() {
  const std::string paper = "SuperNeurons";
  return {
      {"sn-fig2", paper, "Figure 2", "memory and speed with and without workspaces",
       PaperNeeds::kDevice, superneurons::Figure2},
      {"sn-fig8", paper, "Figure 8", "computation and memory by layer type", PaperNeeds::kNothing,
       superneurons::Figure8},
      {"sn-table1", paper, "Table 1", "extra forwards and peak of three ways to recompute",
       PaperNeeds::kNothing, superneurons::Table1},
      {"sn-fig10", paper, "Figure 10", "memory of each step of AlexNet by three techniques",
       PaperNeeds::kNothing, superneurons::Figure10},
      {"sn-table2", paper, "Table 2", "speed with a memory pool and with cudaMalloc and cudaFree",
       PaperNeeds::kDevice, superneurons::Table2},
      {"sn-table3", paper, "Table 3", "bytes moved with and without the tensor cache",
       PaperNeeds::kNothing, superneurons::Table3},
      {"sn-fig11", paper, "Figure 11", "speed with and without the tensor cache",
       PaperNeeds::kNothing, superneurons::Figure11},
      {"sn-fig12", paper, "Figure 12", "workspaces and speed in pools of fixed size",
       PaperNeeds::kTimes, superneurons::Figure12},
      {"sn-table4", paper, "Table 4", "the deepest ResNet in 12 GB", PaperNeeds::kNothing,
       superneurons::Table4},
      {"sn-table5", paper, "Table 5", "the largest batch in 12 GB", PaperNeeds::kNothing,
       superneurons::Table5},
      {"sn-fig13", paper, "Figure 13", "memory at the largest batches", PaperNeeds::kNothing,
       superneurons::Figure13},
      {"sn-fig14", paper, "Figure 14", "speed by batch", PaperNeeds::kNothing,
       superneurons::Figure14}};
}

}  // namespace neap::apps
