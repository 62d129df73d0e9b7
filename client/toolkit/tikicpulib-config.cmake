# find_package(tikicpulib): RUN_MODE cpu, by the targets tikicpulib::SOC_VERSION. The sources are
# compiled as they are, with tikicpulib.h, and run on the host without a device.

get_filename_component(npud_cpu_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(npud_cpu_tree "${npud_cpu_file}/../../../../../.." ABSOLUTE)
find_package(Threads REQUIRED)
foreach(npud_name cpu ${SOC_VERSION})
    if(NOT TARGET tikicpulib::${npud_name})
        add_library(tikicpulib::${npud_name} INTERFACE IMPORTED)
        set_target_properties(tikicpulib::${npud_name} PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES
                "${npud_cpu_tree}/include;${npud_cpu_tree}/tools/tikcpp/tikcfw"
            INTERFACE_LINK_DIRECTORIES "${npud_cpu_tree}/lib64" # programs name ascendcl
            INTERFACE_COMPILE_DEFINITIONS ASCENDC_CPU_DEBUG=1
            INTERFACE_COMPILE_FEATURES cxx_std_17
            INTERFACE_LINK_LIBRARIES
                "${npud_cpu_tree}/lib64/libascendcl.so;Threads::Threads;${CMAKE_DL_LIBS}")
    endif()
endforeach()
