# What CMakeLists.txt of CANN programs include to build kernels. npud's kernels are code of the
# host: the sources are compiled by the project's own compiler for C++, through the driver
# `bisheng`, which turns launches k<<<...>>>(...) into calls (docs/kernels.md).

get_filename_component(npud_cmake_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(npud_cmake_tree "${npud_cmake_file}/../../../.." ABSOLUTE)
# In the cache, because the functions may be called from other folders of the project.
set(NPUD_TOOLKIT "${npud_cmake_tree}" CACHE INTERNAL "npud's toolkit tree")
set(NPUD_BISHENG "${npud_cmake_tree}/bin/bisheng" CACHE INTERNAL "its compiler of kernels")
if(NOT ASCEND_CANN_PACKAGE_PATH)
    set(ASCEND_CANN_PACKAGE_PATH "${NPUD_TOOLKIT}")
endif()
# Programs install their own files there, too, and expect that this file has set it.
foreach(npud_place LIBDIR=lib BINDIR=bin INCLUDEDIR=include)
    string(REPLACE "=" ";" npud_place "${npud_place}")
    list(GET npud_place 0 npud_name)
    list(GET npud_place 1 npud_folder)
    if(NOT DEFINED CMAKE_INSTALL_${npud_name})
        set(CMAKE_INSTALL_${npud_name} ${npud_folder})
    endif()
endforeach()

# What programs link that have kernels. The libraries of lib64 that have no function of npud's are
# there for programs that name them.
if(NOT TARGET host_intf_pub)
    add_library(host_intf_pub INTERFACE IMPORTED GLOBAL)
    set_target_properties(host_intf_pub PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${NPUD_TOOLKIT}/include"
        INTERFACE_LINK_DIRECTORIES "${NPUD_TOOLKIT}/lib64" # programs name ascendcl, c_sec
        INTERFACE_LINK_LIBRARIES "${NPUD_TOOLKIT}/lib64/libascendcl.so")
endif()

# The option for the device that kernels are written for, if the project says which one:
# ASC_NPU_ARCH, or the first of CMAKE_ASC_ARCHITECTURES.
function(npud_arch_option out)
    list(APPEND archs ${ASC_NPU_ARCH} ${CMAKE_ASC_ARCHITECTURES})
    if(archs)
        list(GET archs 0 arch)
        set(arch --npu-arch=${arch})
    endif()
    set(${out} "${arch}" PARENT_SCOPE)
endfunction()

# Absolute names of the sources of a target, in `out`.
function(npud_kernel_sources target out)
    if(NOT ARGN)
        message(FATAL_ERROR "${target} has no sources: name the files that have its kernels")
    endif()
    set(files)
    foreach(source IN LISTS ARGN)
        get_filename_component(file "${source}" ABSOLUTE)
        if(NOT EXISTS "${file}")
            message(FATAL_ERROR "${target}: there is no file ${file}")
        endif()
        list(APPEND files "${file}")
    endforeach()
    set(${out} "${files}" PARENT_SCOPE)
endfunction()

# The sources of the target are kernels.
function(npud_compile_kernels target)
    if(CMAKE_CXX_COMPILER)
        set(language CXX)
    elseif(CMAKE_ASC_COMPILER)
        set(language ASC)
    else()
        message(FATAL_ERROR "${target}: kernels need a compiler for C++: "
            "write project(... CXX) before this call")
    endif()
    get_target_property(sources ${target} SOURCES)
    set_source_files_properties(${sources} PROPERTIES LANGUAGE ${language})
    set_target_properties(${target} PROPERTIES
        CXX_COMPILER_LAUNCHER "${NPUD_BISHENG};--npud-launcher"
        POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE ${language})
    if(RUN_MODE STREQUAL "cpu")
        target_compile_definitions(${target} PRIVATE ASCENDC_CPU_DEBUG=1)
    endif()
    if(language STREQUAL CXX) # the language ASC has it in its rule
        npud_arch_option(option)
        target_compile_options(${target} PRIVATE ${option})
    endif()
endfunction()

# aclrtlaunch_NAME.h for each kernel of the target with extern "C".
function(npud_launch_headers target)
    set(folder "${CMAKE_CURRENT_BINARY_DIR}/include/${target}")
    execute_process(COMMAND "${NPUD_BISHENG}" --npud-launch-headers "${folder}" ${ARGN}
        RESULT_VARIABLE status OUTPUT_VARIABLE headers ERROR_VARIABLE errors)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "${target}: ${errors}")
    endif()
    # When a source changes, its kernels may have changed.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
    string(REGEX REPLACE "\n$" "" headers "${headers}")
    string(REPLACE "\n" ";" headers "${headers}")
    target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${folder}>")
    if(headers)
        install(FILES ${headers} DESTINATION include/${target})
    endif()
endfunction()

# ascendc_library(TARGET STATIC|SHARED SOURCE...)
function(ascendc_library target kind)
    if(NOT kind MATCHES "^(STATIC|SHARED)$")
        message(FATAL_ERROR
            "ascendc_library(${target} ${kind}): write STATIC or SHARED before the sources")
    endif()
    npud_kernel_sources(${target} sources ${ARGN})
    add_library(${target} ${kind} ${sources})
    npud_compile_kernels(${target})
    npud_launch_headers(${target} ${sources})
    target_include_directories(${target} PUBLIC
        "$<BUILD_INTERFACE:${NPUD_TOOLKIT}/include>"
        "$<BUILD_INTERFACE:${NPUD_TOOLKIT}/tools/tikcpp/tikcfw>")
    target_link_libraries(${target} PUBLIC "$<BUILD_INTERFACE:host_intf_pub>" ${CMAKE_DL_LIBS})
    install(TARGETS ${target} LIBRARY DESTINATION lib ARCHIVE DESTINATION lib)
endfunction()

# ascendc_fatbin_library(TARGET SOURCE...): a shared object for aclrtBinaryLoadFromFile(), TARGET.o
# in the folder of the build, and fatbin/TARGET/TARGET.o where it is installed.
function(ascendc_fatbin_library target)
    npud_kernel_sources(${target} sources ${ARGN})
    add_library(${target} MODULE ${sources})
    npud_compile_kernels(${target})
    target_include_directories(${target} PRIVATE
        "${NPUD_TOOLKIT}/include" "${NPUD_TOOLKIT}/tools/tikcpp/tikcfw")
    target_link_libraries(${target} PRIVATE "${NPUD_TOOLKIT}/lib64/libascendcl.so")
    set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX ".o"
        LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
    install(TARGETS ${target} LIBRARY DESTINATION fatbin/${target})
endfunction()

# Definitions as -DNAME or NAME. HAVE_WORKSPACE, HAVE_TILING and ASCENDC_DUMP among them are
# definitions like others: npud's kernels have the parameters that they are written with.
function(ascendc_compile_definitions target)
    target_compile_definitions(${target} ${ARGN})
endfunction()

# The driver leaves out what only a compiler for devices knows. One compiler does the work of both,
# so what stands behind -forward-options-to-host-compiler is for it, too.
function(ascendc_compile_options target)
    target_compile_options(${target} ${ARGN})
endfunction()

function(ascendc_include_directories target)
    set(scope PRIVATE)
    if("${ARGV1}" MATCHES "^(PRIVATE|PUBLIC|INTERFACE)$")
        set(scope)
    endif()
    target_include_directories(${target} ${scope} ${ARGN})
endfunction()
