# CMake includes this when a program enables the language ASC.
include("${CMAKE_CURRENT_LIST_DIR}/ascendc.cmake")
npud_no_kernels("the language ASC")
