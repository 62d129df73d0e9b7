# What CMakeLists.txt of CANN programs include to build kernels. npud has no compiler for an NPU: a
# program that asks for a kernel hears so when it is configured, and everything else is built.

function(npud_no_kernels what)
    message(FATAL_ERROR
        "${what}: npud's toolkit tree has no compiler for kernels of an Ascend device; "
        "leave this target out, or build it with the vendor's toolkit")
endfunction()

function(ascendc_library name)
    npud_no_kernels("ascendc_library(${name})")
endfunction()

function(ascendc_fatbin_library name)
    npud_no_kernels("ascendc_fatbin_library(${name})")
endfunction()
