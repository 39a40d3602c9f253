# README's C++ example is examples/train_resnet.cc, word for word, so that what is read is what is compiled.
file(READ ${ROOT}/examples/train_resnet.cc example)
file(READ ${ROOT}/README.md readme)
string(FIND "${readme}" "${example}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "README.md does not hold examples/train_resnet.cc word for word")
endif()
message("README.md holds examples/train_resnet.cc")
