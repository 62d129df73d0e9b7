# find_package(ASC): found, so that the rest of a program can be configured. Each way to compile a
# kernel is an error that says why: the functions below, and the language ASC.

get_filename_component(npud_asc_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(npud_asc_dir "${npud_asc_file}" DIRECTORY)
include("${npud_asc_dir}/ascendc.cmake")
# For project(... LANGUAGES ASC) and enable_language(ASC).
list(APPEND CMAKE_MODULE_PATH "${npud_asc_dir}")

function(npu_op_package name)
    npud_no_kernels("npu_op_package(${name})")
endfunction()

function(npu_op_library name)
    npud_no_kernels("npu_op_library(${name})")
endfunction()

function(npu_op_kernel_library name)
    npud_no_kernels("npu_op_kernel_library(${name})")
endfunction()
