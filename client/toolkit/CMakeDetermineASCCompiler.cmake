# CMake includes this when a program enables the language ASC: C++ with kernels, which the driver
# `bisheng` compiles.
get_filename_component(npud_asc_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(npud_asc_tree "${npud_asc_file}/../../../.." ABSOLUTE)
if(NOT CMAKE_ASC_COMPILER)
    set(CMAKE_ASC_COMPILER "${npud_asc_tree}/bin/bisheng" CACHE FILEPATH "compiler of kernels")
endif()
set(CMAKE_ASC_COMPILER_ENV_VAR ASC)
configure_file("${CMAKE_CURRENT_LIST_DIR}/CMakeASCCompiler.cmake.in"
    "${CMAKE_PLATFORM_INFO_DIR}/CMakeASCCompiler.cmake" @ONLY)
