// In the place of cuDNN, for tests of what neap does where it cannot use the one that it finds: one
// that is too old and, with LACKS_FUNCTIONS, one without most of its functions.
#include <cstddef>

extern "C" {
size_t cudnnGetVersion() { return 90500; }
#ifndef LACKS_FUNCTIONS
void cudnnCreate() {}
void cudnnDestroy() {}
void cudnnGetErrorString() {}
void cudnnGetLastErrorString() {}
void cudnnGetStream() {}
void cudnnSetStream() {}
void cudnnBackendCreateDescriptor() {}
void cudnnBackendDestroyDescriptor() {}
void cudnnBackendExecute() {}
void cudnnBackendFinalize() {}
void cudnnBackendGetAttribute() {}
void cudnnBackendSetAttribute() {}
#endif
}
