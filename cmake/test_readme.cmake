# README's C++ example must be examples/train_resnet.cc, word for word, so that it is compiled.
file(READ ${ROOT}/examples/train_resnet.cc example)
file(READ ${ROOT}/README.md readme)
string(FIND "${readme}" "${example}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md does not contain examples/train_resnet.cc word for word")
endif()
message("README.md contains examples/train_resnet.cc")
