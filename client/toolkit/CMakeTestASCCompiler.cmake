# The driver is part of this tree; the host's compiler is tried when a source is compiled.
set(CMAKE_ASC_COMPILER_WORKS TRUE CACHE INTERNAL "")
