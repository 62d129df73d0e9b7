# For programs that add the folder asc_modules to CMAKE_MODULE_PATH before find_package(ASC).
get_filename_component(npud_find_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
include("${npud_find_file}/../../ASCConfig.cmake")
