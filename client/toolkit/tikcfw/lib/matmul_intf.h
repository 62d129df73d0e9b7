#error "npud's AscendC has no matrices (lib/matmul_intf.h): write the loops, or leave it out"
