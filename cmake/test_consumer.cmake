# Installs the build tree BUILD into a new folder, builds examples/consumer against it with the commands in that file, and
# runs the program.
set(prefix ${BUILD}/consumer/prefix)
set(work ${BUILD}/consumer/build)
file(REMOVE_RECURSE ${BUILD}/consumer)

set(flags -DCMAKE_CXX_COMPILER=${COMPILER})
if(SANITIZE)
  list(APPEND flags -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
unset(ENV{CMAKE_GENERATOR})  # CMake's default, as for a user
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix}
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/../examples/consumer -B ${work}
                        -DCMAKE_PREFIX_PATH=${prefix} ${flags}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${work}/consumer COMMAND_ERROR_IS_FATAL ANY)
