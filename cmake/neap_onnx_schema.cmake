# The C++ code that protoc makes of nets/onnx/onnx_schema.proto. It becomes a part of the library, without its warnings.
set(neap_onnx_schema ${CMAKE_CURRENT_SOURCE_DIR}/nets/onnx/onnx_schema.proto)
set(neap_onnx_generated ${CMAKE_CURRENT_BINARY_DIR}/generated/onnx)
file(MAKE_DIRECTORY ${neap_onnx_generated})
add_custom_command(OUTPUT ${neap_onnx_generated}/onnx_schema.pb.cc ${neap_onnx_generated}/onnx_schema.pb.h
  COMMAND protobuf::protoc --cpp_out=${neap_onnx_generated} --proto_path=${CMAKE_CURRENT_SOURCE_DIR}/nets/onnx ${neap_onnx_schema}
  DEPENDS ${neap_onnx_schema} VERBATIM)
list(APPEND NEAP_SOURCES ${neap_onnx_generated}/onnx_schema.pb.cc ${neap_onnx_generated}/onnx_schema.pb.h)
set_source_files_properties(${neap_onnx_generated}/onnx_schema.pb.cc PROPERTIES COMPILE_OPTIONS -w SKIP_LINTING ON)
