# Installs the build tree BUILD into a new folder, builds examples/consumer against it with the commands in that file and
# then with pkg-config and without CMake, and runs both programs.
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
                        -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON ${flags}  # which a user may lack
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${work}/consumer COMMAND_ERROR_IS_FATAL ANY)

# The second program takes the shared library where there is one.
find_program(PKG_CONFIG pkg-config REQUIRED)
file(GLOB_RECURSE pc ${prefix}/*/neap.pc)
get_filename_component(folder ${pc} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${folder})
execute_process(COMMAND ${PKG_CONFIG} --cflags --libs neap OUTPUT_VARIABLE options OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(options UNIX_COMMAND "${options}")
if(SANITIZE)
  list(APPEND options -fsanitize=${SANITIZE})
endif()
get_filename_component(folder ${folder} DIRECTORY)
execute_process(COMMAND ${COMPILER} -std=c++20 ${CMAKE_CURRENT_LIST_DIR}/../examples/consumer/main.cc ${options}
                        -Wl,-rpath,${folder} -o ${work}/consumer_of_pkg_config
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${work}/consumer_of_pkg_config COMMAND_ERROR_IS_FATAL ANY)
