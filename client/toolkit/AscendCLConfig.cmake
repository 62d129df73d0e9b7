# find_package(AscendCL): the target AscendCL::ascendcl, and the same as variables.
# Found by its own place, so the tree may be moved.

get_filename_component(AscendCL_ROOT_DIR "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(AscendCL_INCLUDE_DIRS "${AscendCL_ROOT_DIR}/include")
set(AscendCL_LIBRARY_DIRS "${AscendCL_ROOT_DIR}/lib64")
set(AscendCL_LIBRARIES AscendCL::ascendcl)

if(NOT TARGET AscendCL::ascendcl)
    add_library(AscendCL::ascendcl SHARED IMPORTED)
    set_target_properties(AscendCL::ascendcl PROPERTIES
        IMPORTED_LOCATION "${AscendCL_LIBRARY_DIRS}/libascendcl.so"
        INTERFACE_INCLUDE_DIRECTORIES "${AscendCL_INCLUDE_DIRS}")
endif()
