#include "apps/paper/paper_item.h"
namespace neap::apps {
std::vector<PaperItem> MicroBatchItems() { return {}; }
std::vector<PaperItem> CudnnItems() { return {}; }
}  // namespace neap::apps
