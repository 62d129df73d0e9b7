# find_package(ASC): the functions of ascendc.cmake, and the language ASC for project(... LANGUAGES
# ASC) and enable_language(ASC). It may be called before project().

get_filename_component(npud_asc_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(npud_asc_dir "${npud_asc_file}" DIRECTORY)
list(APPEND CMAKE_MODULE_PATH "${npud_asc_dir}")
include("${npud_asc_dir}/ascendc.cmake")
set(ASC_FOUND TRUE)

# Packages of operators are for the vendor's framework, which loads them.
function(npud_no_packages what)
    message(FATAL_ERROR "${what}: npud's toolkit tree builds no packages of operators; "
        "build the kernels by ascendc_library(), or as sources of the language ASC")
endfunction()

function(npu_op_package name)
    npud_no_packages("npu_op_package(${name})")
endfunction()

function(npu_op_library name)
    npud_no_packages("npu_op_library(${name})")
endfunction()

function(npu_op_kernel_library name)
    npud_no_packages("npu_op_kernel_library(${name})")
endfunction()
